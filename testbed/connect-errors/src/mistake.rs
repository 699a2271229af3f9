//! The rows and columns of the matrix.

/// A way to be connected wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The address is that of another port of the controller.
    WrongPort,
    /// The client uses no TLS, and the controller does.
    PlaintextToTls,
    /// The client uses TLS, and the controller does not.
    TlsToPlaintext,
    /// The controller's certificate is for another name than the one in the address.
    CertificateName,
    /// The token is not valid.
    WrongToken,
    /// There is no such tenant.
    UnknownTenant,
    /// There is no such job.
    UnknownJob,
    /// There is no such switch.
    UnknownSwitch,
    /// No program listens at the address.
    NothingListens,
    /// Nothing answers: packets to the address are dropped.
    NoAnswer,
    /// A program accepts connections and sends nothing.
    Silent,
    /// The controller is of an older version than the client.
    OlderController,
    /// The controller is of a newer version than the client.
    NewerController,
}

impl Mistake {
    /// Every mistake, in the order of the page.
    pub const ALL: [Self; 13] = [
        Self::WrongPort,
        Self::PlaintextToTls,
        Self::TlsToPlaintext,
        Self::CertificateName,
        Self::WrongToken,
        Self::UnknownTenant,
        Self::UnknownJob,
        Self::UnknownSwitch,
        Self::NothingListens,
        Self::NoAnswer,
        Self::Silent,
        Self::OlderController,
        Self::NewerController,
    ];

    /// Its heading on the page.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::WrongPort => "Wrong port",
            Self::PlaintextToTls => "Plaintext to TLS",
            Self::TlsToPlaintext => "TLS to plaintext",
            Self::CertificateName => "Certificate for another name",
            Self::WrongToken => "Wrong token",
            Self::UnknownTenant => "Unknown tenant",
            Self::UnknownJob => "Wrong name of a job",
            Self::UnknownSwitch => "Wrong name of a switch",
            Self::NothingListens => "Nothing listens",
            Self::NoAnswer => "No answer",
            Self::Silent => "Accepts connections and sends nothing",
            Self::OlderController => "Older controller",
            Self::NewerController => "Newer controller",
        }
    }
}

/// A client of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// `netfold job` and the other commands that call a controller's gRPC API.
    Job,
    /// `netfold worker`.
    Worker,
    /// Programs that use the C interface.
    C,
    /// Programs that use the Python package.
    Python,
    /// Programs that use the backend of torch.distributed.
    Torch,
    /// MPI programs under the shim.
    Mpi,
    /// NCCL with the network plugin.
    Nccl,
}

impl Client {
    /// Every client, in the order of the page.
    pub const ALL: [Self; 7] =
        [Self::Job, Self::Worker, Self::C, Self::Python, Self::Torch, Self::Mpi, Self::Nccl];

    /// Its name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Job => "`netfold job`",
            Self::Worker => "`netfold worker`",
            Self::C => "C",
            Self::Python => "Python",
            Self::Torch => "torch",
            Self::Mpi => "MPI",
            Self::Nccl => "NCCL",
        }
    }

    /// Why a mistake is not possible with this client, if it is not.
    pub const fn not_applicable(self, mistake: Mistake) -> Option<&'static str> {
        match (self, mistake) {
            (Self::Job, _) => None,
            (_, Mistake::UnknownSwitch) => {
                Some("workers name no switch of a controller: it chooses the switches of a job")
            }
            (Self::Torch, Mistake::UnknownJob) => Some("rank 0 sends the name of the job to the other ranks"),
            (Self::Mpi, Mistake::UnknownJob) => {
                Some("the first rank of a communicator sends the name of the job to the others")
            }
            (Self::Nccl, Mistake::UnknownJob) => {
                Some("the name of the job is a digest of the handles of all ranks")
            }
            _ => None,
        }
    }

    /// The mistakes that this client can make.
    pub fn mistakes(self) -> impl Iterator<Item = Mistake> {
        Mistake::ALL.into_iter().filter(move |mistake| self.not_applicable(*mistake).is_none())
    }
}
