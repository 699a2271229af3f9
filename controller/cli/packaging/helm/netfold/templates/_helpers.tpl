{{- define "netfold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "netfold.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "netfold.labels" -}}
{{ include "netfold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "netfold.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}

{{/* Capabilities by packet I/O, as docs/launchers.md#permissions has them. Registering the memory of XDP sockets is bounded by the limit of locked
     memory, which a pod cannot raise. */}}
{{- define "netfold.capabilities" -}}
{{- $io := .Values.switch.io -}}
{{- $found := list -}}
{{- if regexMatch "(^|uplink=)(packet-ring|af-packet):" $io -}}
{{- $found = list "NET_RAW" -}}
{{- else if regexMatch "(^|uplink=)af-xdp:" $io -}}
{{- $found = list "NET_RAW" "NET_ADMIN" "BPF" "IPC_LOCK" -}}
{{- else if hasPrefix "xdp-kernel:" $io -}}
{{- $found = list "NET_ADMIN" "BPF" -}}
{{- end -}}
{{- concat $found .Values.switch.extraCapabilities | uniq | join "," -}}
{{- end -}}

{{/* The controllers' ports for workers, separated by commas. */}}
{{- define "netfold.workers" -}}
{{- $service := printf "%s-controller" (include "netfold.fullname" .) -}}
{{- if eq (int .Values.controller.replicas) 1 -}}
{{ $service }}:20041
{{- else -}}
{{- $names := list -}}
{{- range until (int .Values.controller.replicas) -}}
{{- $names = append $names (printf "%s-%d.%s:20041" $service . $service) -}}
{{- end -}}
{{ join "," $names }}
{{- end -}}
{{- end -}}

{{/* Refuses values that do not fit together. values.schema.json has the types. */}}
{{- define "netfold.check" -}}
{{- $c := .Values.controller -}}
{{- if $c.enabled -}}
{{- if and (not $c.topology) (not $c.topologyConfigMap) -}}
{{- fail "set controller.topology to the topology file's text, or controller.topologyConfigMap to a ConfigMap that has it" -}}
{{- end -}}
{{- if and $c.topology $c.topologyConfigMap -}}
{{- fail "controller.topology and controller.topologyConfigMap exclude each other" -}}
{{- end -}}
{{- if and (gt (int $c.replicas) 1) (not $c.etcd.endpoints) -}}
{{- fail "controller.replicas above 1 needs controller.etcd.endpoints: a database in a file has one controller" -}}
{{- end -}}
{{- if and (not .Values.insecure) (or (not $c.adminTokens.secretName) (not $c.tls.secretName)) -}}
{{- fail "set controller.adminTokens.secretName and controller.tls.secretName, or insecure=true for a trial" -}}
{{- end -}}
{{- if and (gt (int $c.replicas) 1) (ne $c.service.type "ClusterIP") -}}
{{- fail "several controllers have a Service without an address: controller.service.type must be ClusterIP" -}}
{{- end -}}
{{- if and $c.adminTokens.readers (not $c.adminTokens.secretName) -}}
{{- fail "controller.adminTokens.readers needs controller.adminTokens.secretName" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled $c.adminTokens.secretName (not .Values.metrics.serviceMonitor.tokenSecretName) -}}
{{- fail "metrics need a token: set metrics.serviceMonitor.tokenSecretName" -}}
{{- end -}}
{{- if and .Values.test.enabled $c.tls.secretName (not .Values.test.caConfigMap) -}}
{{- fail "workers need the authority of the controller's certificate: set test.caConfigMap, or test.enabled=false" -}}
{{- end -}}
{{- if and .Values.test.enabled (not .Values.test.tenant) -}}
{{- fail "set test.tenant to a tenant of the controller, or test.enabled=false" -}}
{{- end -}}
{{- if and .Values.switch.enabled (not .Values.insecure) (not .Values.switch.tls.secretName) -}}
{{- fail "set switch.tls.secretName: without it every client that reaches P4Runtime controls the switch; or insecure=true for a trial" -}}
{{- end -}}
{{- else if and .Values.test.enabled (not .Values.test.switch) -}}
{{- fail "without a controller set test.switch to the HOST:PORT of a switch, or test.enabled=false" -}}
{{- end -}}
{{- end -}}

{{/* Of all containers. */}}
{{- define "netfold.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
{{- end -}}

{{- define "netfold.unprivileged" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
