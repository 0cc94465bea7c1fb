//! The one HTTP client for everything that this process calls by itself: models and tool servers.
//!
//! Its rule: only addresses that this process's own configuration names may be private; a document
//! that somebody posted can name an address, but never reach into the network around the worker.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;

/// Refused before or while connecting; nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    #[error("address '{0}' is not a URL: {1}")]
    NotAnAddress(String, String),
    #[error(
        "address '{0}' must be https (plain http is only for addresses of the worker's own configuration)"
    )]
    NotHttps(String),
    #[error("address '{0}' is private and not listed in the worker's own configuration ([outgoing] allow)")]
    Private(String),
    #[error("the HTTP client cannot be built: {0}")]
    Client(#[from] reqwest::Error),
}

/// One client with its rules; cheap to clone.
#[derive(Clone, Debug)]
pub struct Outgoing {
    client: reqwest::Client,
    listed: Arc<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    /// `host:port`, lower case.
    origins: HashSet<String>,
    hosts: HashSet<String>,
}

impl Outgoing {
    /// `listed` are the URLs and `host:port` pairs of the process's own configuration.
    pub fn new<I, S>(listed: I) -> Result<Self, OutgoingError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut all = Listed::default();
        for entry in listed {
            let entry = entry.as_ref();
            let text = if entry.contains("://") {
                entry.to_owned()
            } else {
                format!("http://{entry}")
            };
            let url = Url::parse(&text)
                .map_err(|e| OutgoingError::NotAnAddress(entry.to_owned(), e.to_string()))?;
            all.origins.insert(origin(&url));
            all.hosts.insert(host(&url));
        }
        let listed = Arc::new(all);
        let client = reqwest::Client::builder()
            .user_agent(concat!("legation-agent/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .redirect(redirect::Policy::custom(same_origin_only))
            .dns_resolver(Arc::new(PublicOnly {
                listed: Arc::clone(&listed),
            }))
            .build()?;
        Ok(Self { client, listed })
    }

    /// The address as a URL when it may be called at all; names are checked again when resolved.
    pub fn check(&self, address: &str) -> Result<Url, OutgoingError> {
        let url = Url::parse(address)
            .map_err(|e| OutgoingError::NotAnAddress(address.to_owned(), e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(OutgoingError::NotHttps(address.to_owned()));
        }
        if self.listed.origins.contains(&origin(&url)) {
            return Ok(url);
        }
        if url.scheme() != "https" {
            return Err(OutgoingError::NotHttps(address.to_owned()));
        }
        let literal = host(&url)
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        // A host that is listed under another port skips the resolver's filter, so it is refused here.
        let private = literal.is_ok_and(is_private) || self.listed.hosts.contains(&host(&url));
        if private {
            Err(OutgoingError::Private(address.to_owned()))
        } else {
            Ok(url)
        }
    }

    /// The client; call only addresses that `check` let through.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_ascii_lowercase()
}

fn origin(url: &Url) -> String {
    format!(
        "{}:{}",
        host(url),
        url.port_or_known_default().unwrap_or_default()
    )
}

fn same_origin_only(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let Some(first) = attempt.previous().first() else {
        return attempt.stop();
    };
    if origin(first) != origin(attempt.url()) || first.scheme() != attempt.url().scheme() {
        let message = format!("redirect to another host refused: {}", host(attempt.url()));
        return attempt.error(message);
    }
    if attempt.previous().len() > 5 {
        attempt.error("too many redirects")
    } else {
        attempt.follow()
    }
}

#[derive(Debug)]
struct PublicOnly {
    listed: Arc<Listed>,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let listed = Arc::clone(&self.listed);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let free = listed.hosts.contains(&name.as_str().to_ascii_lowercase());
            let usable: Vec<SocketAddr> = found
                .into_iter()
                .filter(|a| free || !is_private(a.ip()))
                .collect();
            if usable.is_empty() {
                return Err(format!("'{}' resolves to no public address", name.as_str()).into());
            }
            let addresses: Addrs = Box::new(usable.into_iter());
            Ok(addresses)
        })
    }
}

/// Loopback, private, link-local and every other address that is not on the public internet.
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    if let Some(v4) = ip.to_ipv4_mapped() {
        return is_private_v4(v4);
    }
    let s = ip.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || (s[0] & 0xfe00) == 0xfc00
        || (s[0] & 0xffc0) == 0xfe80
        || (s[0] == 0x64 && s[1] == 0xff9b && embedded(s[6], s[7]))
        || (s[0] == 0x2002 && embedded(s[1], s[2]))
        || s[..6].iter().all(|x| *x == 0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_own_configuration_may_be_private_and_plain() {
        let outgoing = Outgoing::new(["http://127.0.0.1:4000/mcp", "tools.internal:8080"]).unwrap();
        assert!(outgoing.check("http://127.0.0.1:4000/other").is_ok());
        assert!(outgoing.check("http://tools.internal:8080/mcp").is_ok());
    }

    #[test]
    fn any_other_private_address_is_refused() {
        let outgoing = Outgoing::new(["http://127.0.0.1:4000/mcp"]).unwrap();
        for address in [
            "https://127.0.0.1:8700/v1",
            "https://10.1.2.3/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[fd00::1]/",
            "https://100.64.0.1/",
        ] {
            assert!(
                matches!(outgoing.check(address), Err(OutgoingError::Private(_))),
                "{address}"
            );
        }
        assert!(matches!(
            outgoing.check("http://example.com/"),
            Err(OutgoingError::NotHttps(_))
        ));
        assert!(matches!(
            outgoing.check("file:///etc/passwd"),
            Err(OutgoingError::NotHttps(_))
        ));
        assert!(outgoing.check("https://example.com/").is_ok());
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_loopback_is_refused_when_connecting() {
        let outgoing = Outgoing::new(["http://example.com"]).unwrap();
        let url = outgoing.check("https://localhost:1/").unwrap();
        let error = outgoing.client().get(url).send().await.unwrap_err();
        assert!(format!("{error:?}").contains("no public address"), "{error:?}");
    }
}
