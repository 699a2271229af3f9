//! Finds DPDK, compiles the shim and generates the bindings; does nothing without the feature `dpdk`.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::path::PathBuf;
    use std::process::Command;

    /// The functions of DPDK that are used. The bindings contain nothing else.
    const FUNCTIONS: &[&str] = &[
        "netfold_.*",
        "rte_dev_(probe|remove)",
        "rte_eal_(init|get_runtime_dir)",
        "rte_eth_dev_(adjust_nb_rx_tx_desc|close|configure|count_avail|get_mtu|info_get|set_mtu|socket_id|start|stop)",
        "rte_eth_dev_(get_port_by_name|is_valid_port|rx_intr_ctl_q_get_fd|rx_intr_enable|rx_intr_disable)",
        "rte_eth_(from_rings|link_get_nowait|macaddr_get|promiscuous_enable|rx_queue_setup|tx_queue_setup|stats_get)",
        "rte_mempool_(avail_count|free)",
        "rte_pktmbuf_(free_bulk|pool_create)",
        "rte_ring_(create|free)",
        "rte_swx_ctl_pipeline_(abort|commit|create|free|regarray_read|regarray_write|table_entry_(add|delete|read))",
        "rte_swx_pipeline_(action_config|build|config|free|instructions_config|packet_header_register|packet_metadata_register)",
        "rte_swx_pipeline_extern_(object_config|type_member_func_register|type_register)",
        "rte_swx_pipeline_(port_in_config|port_in_type_register|port_out_config|port_out_type_register)",
        "rte_swx_pipeline_(regarray_config|run|struct_type_register|table_config)",
        "rte_thread_(register|unregister)",
    ];
    const VARIABLES: &[&str] =
        &["NETFOLD_.*", "RING_F_S[CP]_(DEQ|ENQ)", "RTE_MAX_LCORE", "RTE_PKTMBUF_HEADROOM"];
    /// Types that only DPDK looks into; here they are sizes.
    const OPAQUE: &[&str] = &["rte_device", "rte_mbuf.*", "rte_mempool.*", "(__)?rte_ring.*"];
    /// What is linked by name. Drivers are plugins that DPDK loads when it starts, apart from the one with functions of its own.
    const LIBRARIES: &[&str] = &[
        "rte_net_ring",
        "rte_pipeline",
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
        "rte_eal",
        "rte_kvargs",
    ];

    pub(super) fn build() {
        for file in ["build.rs", "shim/shim.h", "shim/shim.c"] {
            println!("cargo::rerun-if-changed={file}");
        }
        let mut probe = pkg_config::Config::new();
        let found = probe.atleast_version("22.11").cargo_metadata(false).env_metadata(true).probe("libdpdk");
        if let Err(error) = found {
            println!(
                "cargo::error=the feature `dpdk` needs DPDK 22.11 or newer: on Debian, install libdpdk-dev and libclang-dev"
            );
            println!("cargo::error=pkg-config: {error}");
            return;
        }
        let flags = flags("--cflags");
        // Debian's flags name the oldest processor that DPDK's headers support, and the shim uses the same.
        let mut shim = cc::Build::new();
        shim.file("shim/shim.c").warnings(true).extra_warnings(false).define("ALLOW_EXPERIMENTAL_API", None);
        for flag in &flags {
            shim.flag(flag);
        }
        shim.compile("netfold_dpdk_shim");
        for flag in self::flags("--libs-only-L") {
            println!("cargo::rustc-link-search=native={}", flag.trim_start_matches("-L"));
        }
        for library in LIBRARIES {
            println!("cargo::rustc-link-lib={library}");
        }

        let mut bindings = bindgen::Builder::default()
            .header("shim/shim.h")
            .clang_args(&flags)
            .clang_arg("-DALLOW_EXPERIMENTAL_API")
            .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
            .derive_default(false)
            .generate_comments(false)
            .layout_tests(false)
            .prepend_enum_name(false)
            .use_core();
        bindings = FUNCTIONS.iter().fold(bindings, |bindings, name| bindings.allowlist_function(name));
        bindings = VARIABLES.iter().fold(bindings, |bindings, name| bindings.allowlist_var(name));
        bindings = OPAQUE.iter().fold(bindings, |bindings, name| bindings.opaque_type(name));
        let file = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("bindings.rs");
        if let Err(error) = bindings.generate().map(|made| made.write_to_file(file)) {
            println!("cargo::error=no bindings of DPDK (is libclang-dev installed?): {error}");
        }
    }

    /// The output of `pkg-config` for DPDK, as words. The crate of that name leaves out flags that are neither paths nor
    /// definitions, and DPDK's headers need those.
    fn flags(kind: &str) -> Vec<String> {
        let program = std::env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
        let output = Command::new(program).args([kind, "libdpdk"]).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }
}
