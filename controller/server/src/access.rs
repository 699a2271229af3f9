//! Authentication and authorisation.
//!
//! There are three roles. An *administrator* may do everything; a *reader* sees everything and changes nothing; a *tenant* sees and
//! changes its own jobs. The tokens of administrators and readers are given to the controller when it starts; a tenant's token is
//! generated here, returned once, and stored as a hash. Comparisons take constant time.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use netfold_controller::command::Proof;
use netfold_controller::record::TokenHash;
use netfold_controller::server::Control;
use rand::TryRng as _;
use rand::rngs::SysRng;
use tonic::codegen::http::{HeaderMap, header};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::refusal::{IntoStatus as _, Reason, refuse};

/// Fewest characters of a token that was generated elsewhere.
pub const TOKEN_LEN_MIN: usize = 32;

/// Most characters of a token.
pub const TOKEN_LEN_MAX: usize = 512;

/// Random bytes of a generated token.
const TOKEN_BYTES: usize = 32;

/// A new token. It is revealed once, by its owner.
pub struct Token(String);

impl Token {
    /// 256 random bits of the system, with the prefix `nf_`.
    ///
    /// # Errors
    /// The system's error, if it has no random numbers.
    pub fn generate() -> Result<Self, rand::rngs::SysError> {
        let mut bytes = [0; TOKEN_BYTES];
        SysRng.try_fill_bytes(&mut bytes)?;
        Ok(Self(format!("nf_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The token's hash, which is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }

    /// The token itself.
    pub fn reveal(self) -> String {
        self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Why a token that was generated elsewhere is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} visible ASCII characters: make one with `openssl rand -hex 32`"
)]
pub struct TokenError;

/// The hashes of the tokens in a text, one per line; empty lines and lines that begin with `#` are ignored.
///
/// # Errors
/// [`TokenError`] if a line is not a token, or there is none.
pub fn hashes(text: &str) -> Result<Vec<TokenHash>, TokenError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let hashes: Vec<TokenHash> = lines.map(hash).collect::<Result<_, _>>()?;
    if hashes.is_empty() { Err(TokenError) } else { Ok(hashes) }
}

fn hash(token: &str) -> Result<TokenHash, TokenError> {
    let fits = (TOKEN_LEN_MIN..=TOKEN_LEN_MAX).contains(&token.len());
    if fits && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(TokenHash::of(token))
    } else {
        Err(TokenError)
    }
}

/// Who has access.
#[derive(Debug, Clone)]
pub enum Access {
    /// Every client, as an administrator.
    Open,
    /// Clients that send a token.
    Tokens {
        /// Administrators.
        admins: Vec<TokenHash>,
        /// Readers.
        readers: Vec<TokenHash>,
    },
}

impl Access {
    /// The role of the client that sends this token, or none.
    fn caller(&self, token: Option<TokenHash>) -> Caller {
        match self {
            Self::Open => Caller::Admin,
            Self::Tokens { admins, readers } => match token {
                Some(token) if among(admins, &token) => Caller::Admin,
                Some(token) if among(readers, &token) => Caller::Reader,
                token => Caller::Other(token),
            },
        }
    }

    /// Whether a client with this `authorization` header may see everything. A browser's password prompt is accepted as well.
    pub(crate) fn sees_everything(&self, authorization: Option<&str>) -> bool {
        let token = authorization.and_then(|header| bearer(header).or_else(|| password(header)));
        matches!(self.caller(token.map(|token| TokenHash::of(&token))), Caller::Admin | Caller::Reader)
    }

    /// Whether these headers have a token of an administrator or a reader. A tenant's is known to the control plane only.
    pub(crate) fn is_proven_by(&self, headers: &HeaderMap) -> bool {
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        matches!(self, Self::Tokens { .. }) && self.sees_everything(header)
    }
}

/// Whether a hash is among those; compares it with all of them, for constant time.
fn among(hashes: &[TokenHash], token: &TokenHash) -> bool {
    hashes.iter().fold(false, |found, hash| found | hash.equals(token))
}

fn bearer(header: &str) -> Option<String> {
    let (scheme, token) = header.split_once(' ')?;
    let fits = scheme.eq_ignore_ascii_case("bearer") && token.len() <= TOKEN_LEN_MAX;
    fits.then(|| token.trim().to_owned())
}

fn password(header: &str) -> Option<String> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || encoded.len() > 2 * TOKEN_LEN_MAX {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

enum Caller {
    Admin,
    Reader,
    /// A tenant, or an unauthenticated client.
    Other(Option<TokenHash>),
}

/// What a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Visibility {
    Everything,
    /// What belongs to this tenant.
    Tenant(String),
}

impl Visibility {
    /// Whether what belongs to a tenant may be seen.
    pub(crate) fn includes(&self, tenant: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Tenant(own) => own == tenant,
        }
    }
}

/// Authorises every call.
#[derive(Clone)]
pub(crate) struct Authorizer {
    access: Access,
    control: Control,
}

impl Authorizer {
    pub(crate) fn new(access: Access, control: Control) -> Self {
        Self { access, control }
    }

    fn caller(&self, metadata: &MetadataMap) -> Caller {
        let header = metadata.get("authorization").and_then(|value| value.to_str().ok());
        self.access.caller(header.and_then(bearer).map(|token| TokenHash::of(&token)))
    }

    /// Accepts administrators.
    pub(crate) fn admin(&self, metadata: &MetadataMap) -> Result<(), Status> {
        match self.caller(metadata) {
            Caller::Admin => Ok(()),
            Caller::Reader => Err(read_only()),
            Caller::Other(None) => Err(missing()),
            Caller::Other(Some(_)) => Err(refuse(
                Code::PermissionDenied,
                Reason::AdminOnly,
                "only an administrator may do this: send one of the tokens that the controller was started with",
            )),
        }
    }

    /// Accepts callers that may change what belongs to the tenant.
    pub(crate) async fn change(&self, metadata: &MetadataMap, tenant: &str) -> Result<(), Status> {
        match self.caller(metadata) {
            Caller::Admin => Ok(()),
            Caller::Reader => Err(read_only()),
            Caller::Other(token) => self.tenant(tenant, token).await,
        }
    }

    /// Accepts callers that may see what belongs to the tenant, or everything if none is named.
    pub(crate) async fn see(
        &self,
        metadata: &MetadataMap,
        tenant: Option<&str>,
    ) -> Result<Visibility, Status> {
        let token = match self.caller(metadata) {
            Caller::Admin | Caller::Reader => return Ok(Visibility::Everything),
            Caller::Other(token) => token,
        };
        match tenant {
            Some(tenant) => self.tenant(tenant, token).await.map(|()| Visibility::Tenant(tenant.to_owned())),
            None if token.is_none() => Err(missing()),
            None => Err(refuse(
                Code::PermissionDenied,
                Reason::TenantNeeded,
                "this token is not one of an administrator or a reader: check it, or name the tenant to whom it belongs",
            )),
        }
    }

    async fn tenant(&self, tenant: &str, token: Option<TokenHash>) -> Result<(), Status> {
        let proof = Proof { tenant: tenant.to_owned(), token };
        match self.control.verify(proof).await {
            Ok(true) => Ok(()),
            Ok(false) if token.is_none() => Err(missing()),
            // The same response whether or not the tenant exists.
            Ok(false) => Err(refuse(
                Code::PermissionDenied,
                Reason::TokenRefused,
                "this token does not belong to the tenant: check the tenant's name, or have an administrator rotate the token",
            )),
            Err(error) => Err(error.into_status()),
        }
    }
}

fn read_only() -> Status {
    refuse(Code::PermissionDenied, Reason::ReadOnly, "this token permits only reading: send another")
}

fn missing() -> Status {
    refuse(
        Code::Unauthenticated,
        Reason::TokenMissing,
        "this controller requires a token: send it as metadata, `authorization: Bearer TOKEN`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_unique() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(one.hash(), other.hash());
        assert!(!format!("{one:?}").contains("nf_"));
        let hash = one.hash();
        let text = one.reveal();
        assert!(text.starts_with("nf_") && text.len() == 46, "{text}");
        assert_eq!(hashes(&text).unwrap(), [hash]);
    }

    #[test]
    fn token_files_have_one_token_per_line() {
        let token = "0123456789abcdef0123456789abcdef";
        assert_eq!(hashes(&format!("# admins\n\n  {token}\n{token}x\n")).unwrap().len(), 2);
        for wrong in ["", "# none\n", "short", "white space in between the characters"] {
            assert_eq!(hashes(wrong), Err(TokenError), "{wrong}");
        }
        assert!(hashes(&"x".repeat(TOKEN_LEN_MAX + 1)).is_err());
    }

    #[test]
    fn bearer_and_basic_headers_are_accepted() {
        let token = "0123456789abcdef0123456789abcdef";
        let access = Access::Tokens { admins: Vec::new(), readers: vec![TokenHash::of(token)] };
        let basic = STANDARD.encode(format!("user:{token}"));
        assert!(access.sees_everything(Some(&format!("Bearer {token}"))));
        assert!(access.sees_everything(Some(&format!("bearer {token}"))));
        assert!(access.sees_everything(Some(&format!("Basic {basic}"))));
        for wrong in ["", token, "Bearer", "Bearer x", "Basic x", "Basic", &format!("Basic {token}")] {
            assert!(!access.sees_everything(Some(wrong)), "{wrong}");
        }
        assert!(!access.sees_everything(None));
        assert!(Access::Open.sees_everything(None));
    }
}
