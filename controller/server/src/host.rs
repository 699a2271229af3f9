//! Names under which the page answers.
//!
//! A page of another server can have its name resolve to this server's address (DNS rebinding): the browser then sends its requests here
//! and gives it the responses. Such a request names the other server in `Host`, and is refused.

use std::net::{IpAddr, Ipv6Addr};

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::response::{Body, text};

/// Longest name in a refusal, in characters.
const NAME_LEN_MAX: usize = 253;

/// The host that a request is for; `None` if it names none, as no browser's does.
fn requested(request: &Request<Incoming>) -> Option<&str> {
    // RFC 9112 section 3.2.2: a target in absolute form comes before the header.
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        // What is no text is no name either.
        None => request.headers().get(header::HOST).map(|host: &HeaderValue| host.to_str().unwrap_or("?")),
    }
}

/// Whether the page answers requests for `host`, which may end with a port: an IP address, `localhost`, or one of `names`.
fn is_own(host: &str, names: &[String]) -> bool {
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.trim_end_matches('.').eq_ignore_ascii_case(name))
}

/// The refusal of a request for another host, if it is for one.
pub(crate) fn refusal(request: &Request<Incoming>, names: &[String]) -> Option<Response<Body>> {
    let host = requested(request).filter(|host| !is_own(host, names))?;
    let host: String = host.chars().filter(|letter| !letter.is_control()).take(NAME_LEN_MAX).collect();
    let name = host.split_once(':').map_or(host.as_str(), |(name, _)| name);
    Some(text(
        StatusCode::MISDIRECTED_REQUEST,
        format!(
            "this server does not answer for the host '{name}': use its IP address or localhost, or start the controller with --page-host \
             {name}\n"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn addresses_localhost_and_configured_names_are_own() {
        let names = ["Controller.example".to_owned()];
        for own in [
            "127.0.0.1",
            "127.0.0.1:20043",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:20043",
            "localhost",
            "LOCALHOST:20043",
            "localhost.:20043",
            "controller.example",
            "controller.EXAMPLE:20043",
            "controller.example.",
        ] {
            assert!(is_own(own, &names), "{own}");
        }
        for other in [
            "",
            ":20043",
            "attacker.example",
            "attacker.example:20043",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            "attacker.localhost",
            "controller.example.attacker.example",
            "[::1].attacker.example",
            "[attacker.example]",
            "[::1",
            "2130706433",
            "0x7f.1",
            "?",
        ] {
            assert!(!is_own(other, &names), "{other}");
        }
    }
}
