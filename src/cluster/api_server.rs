//! The API server, as the kubelet's identity reaches it: a few GETs with a deadline and a limit.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::kubeconfig;
use super::unasked::Unasked;
use crate::os::text::printable;

/// Tells our requests from the kubelet's in an audit log: the identity is the same.
const OURSELVES: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
/// The longest answer that is read. No object in etcd is larger than 1.5 MB.
const LONGEST: usize = 4 << 20;
/// The pause before the next attempt, where a busy API server does not say how long it wants.
const PAUSE: Duration = Duration::from_secs(1);
/// The versions of SelfSubjectReview, the newest first: 1.28, 1.27 and 1.26.
const REVIEWS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The API server, for one look at the cluster.
pub(crate) struct ApiServer {
    client: Client,
    url: String,
    kubeconfig: PathBuf,
    timeout: Duration,
    deadline: Instant,
    /// The code with which the API server last asked for patience.
    busy: Cell<Option<u16>>,
}

/// How old an object may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// As old as the API server's cache, which costs the API server little.
    Cached,
    /// As it is now.
    Current,
}

/// What came back for a request.
enum Answer {
    Body(Vec<u8>),
    /// An answer that is no success.
    Code(StatusCode, Vec<u8>),
}

/// What every object has.
#[derive(Deserialize)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: String,
}

/// A Status that says what is missing.
#[derive(Deserialize)]
struct Failure {
    kind: String,
    reason: String,
    details: FailureDetails,
}

#[derive(Deserialize)]
struct FailureDetails {
    name: String,
    /// The resource, such as "nodes".
    kind: String,
}

/// The part of a SelfSubjectReview that is used.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewStatus {
    user_info: ReviewUser,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewUser {
    username: Option<String>,
}

impl ApiServer {
    /// The API server of this kubeconfig; all answers together may take as long as `timeout`.
    pub(crate) async fn connect(
        kubeconfig: &Path,
        timeout: Duration,
    ) -> Result<ApiServer, Unasked> {
        let deadline = Instant::now() + timeout;
        let config = read_apart(kubeconfig, deadline).await?;
        let uri = &config.cluster_url;
        let url = format!(
            "https://{}{}",
            printable(uri.authority().map_or("", |authority| authority.as_str())),
            printable(uri.path().trim_end_matches('/'))
        );
        let builder = ClientBuilder::try_from(config).map_err(|error| Unasked::Bad {
            path: kubeconfig.to_owned(),
            why: unusable(&error),
        })?;
        Ok(ApiServer {
            client: builder.build(),
            url,
            kubeconfig: kubeconfig.to_owned(),
            timeout,
            deadline,
            busy: Cell::new(None),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The object with this name; none if it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        collection: &str,
        name: &str,
        freshness: Freshness,
    ) -> Result<Option<T>, Unasked> {
        let path = format!("{collection}/{name}");
        let uri = match freshness {
            Freshness::Cached => format!("{path}?resourceVersion=0"),
            Freshness::Current => path.clone(),
        };
        let body = match self.ask(Method::GET, &uri, &path, None).await? {
            Answer::Body(body) => body,
            Answer::Code(StatusCode::NOT_FOUND, body) => {
                return match is_not_found(&body, collection, name) {
                    true => Ok(None),
                    false => Err(self.garbage(&path, "it is a 404 of another server")),
                };
            }
            Answer::Code(code, _) => return Err(self.refused(code, path)),
        };
        let garbage = |why: &str| self.garbage(&path, why);
        let known: Named = parse(&body, "it is another object").map_err(garbage)?;
        if known.metadata.name != name {
            return Err(garbage("it is another object"));
        }
        parse(&body, "it has another shape").map_err(garbage)
    }

    /// The name of the user that the kubeconfig makes us; none if the API server does not tell it.
    pub(crate) async fn user(&self) -> Result<Option<String>, Unasked> {
        for version in REVIEWS {
            let path = format!("/apis/authentication.k8s.io/{version}/selfsubjectreviews");
            let review = json!({
                "apiVersion": format!("authentication.k8s.io/{version}"),
                "kind": "SelfSubjectReview",
            });
            match self.ask(Method::POST, &path, &path, Some(review)).await? {
                Answer::Body(body) => {
                    let review: Review = parse(&body, "it is no SelfSubjectReview")
                        .map_err(|why| self.garbage(&path, why))?;
                    return Ok(review.status.user_info.username);
                }
                Answer::Code(StatusCode::UNAUTHORIZED, _) => {
                    return Err(self.refused(StatusCode::UNAUTHORIZED, path));
                }
                // An API server that does not know the version, and asks first whether we may use it.
                Answer::Code(StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, _) => {}
                Answer::Code(code, _) => return Err(self.refused(code, path)),
            }
        }
        Ok(None)
    }

    /// Asks until there is an answer, for as long as the deadline allows.
    async fn ask(
        &self,
        method: Method,
        uri: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, Unasked> {
        loop {
            let answer = timeout_at(
                self.deadline,
                self.ask_once(&method, uri, path, body.as_ref()),
            );
            let (code, headers, bytes) = answer.await.map_err(|_| self.late(path))??;
            let is_busy = matches!(
                code,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            if !is_busy {
                return Ok(match code.is_success() {
                    true => Answer::Body(bytes),
                    false => Answer::Code(code, bytes),
                });
            }
            self.busy.set(Some(code.as_u16()));
            let pause = retry_after(&headers);
            match Instant::now().checked_add(pause) {
                Some(again) if again < self.deadline => sleep_until(again).await,
                Some(_) | None => return Err(self.late(path)),
            }
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        uri: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Unasked> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(USER_AGENT, OURSELVES);
        let request = match body {
            Some(json) => request
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(Body::from(json.to_string().into_bytes())),
            None => request.body(Body::empty()),
        };
        let request = request.map_err(|error| self.garbage(path, &error.to_string()))?;
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST).collect().await;
        let body = body.map_err(|error| {
            let why = match error.is::<LengthLimitError>() {
                true => "it has more than 4 MiB",
                false => "it breaks off",
            };
            self.garbage(path, why)
        })?;
        Ok((parts.status, parts.headers, body.to_bytes().into()))
    }

    fn refused(&self, code: StatusCode, path: String) -> Unasked {
        let (server, kubeconfig) = (self.url.clone(), self.kubeconfig.clone());
        match code {
            StatusCode::UNAUTHORIZED => Unasked::Unauthorized { server, kubeconfig },
            StatusCode::FORBIDDEN => Unasked::Forbidden {
                server,
                path,
                kubeconfig,
            },
            code => Unasked::Status {
                server,
                path,
                code: code.as_u16(),
            },
        }
    }

    fn garbage(&self, path: &str, why: &str) -> Unasked {
        Unasked::Garbage {
            server: self.url.clone(),
            path: path.to_owned(),
            why: why.to_owned(),
        }
    }

    fn unreachable(&self, error: &kube::Error) -> Unasked {
        Unasked::Unreachable {
            server: self.url.clone(),
            why: root_cause(error),
            kubeconfig: self.kubeconfig.clone(),
        }
    }

    /// The deadline has passed, or would.
    fn late(&self, path: &str) -> Unasked {
        let server = self.url.clone();
        match self.busy.get() {
            Some(code) => Unasked::Busy {
                server,
                path: path.to_owned(),
                code,
            },
            None => Unasked::Silent {
                server,
                timeout: self.timeout,
            },
        }
    }
}

/// The answer as what it should be, or why it is not that: the words of the parser could have a part of the answer in them.
/// Not into a tree of values, which can take a hundred times the memory of the answer.
fn parse<T: DeserializeOwned>(body: &[u8], otherwise: &'static str) -> Result<T, &'static str> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => otherwise,
        Category::Io | Category::Syntax | Category::Eof => "it is not JSON",
    })
}

/// Reads the kubeconfig in another thread: a file system that hangs must not hold up the command.
async fn read_apart(kubeconfig: &Path, deadline: Instant) -> Result<Config, Unasked> {
    let path = kubeconfig.to_owned();
    let runtime = tokio::runtime::Handle::current();
    let reading = spawn_blocking(move || runtime.block_on(kubeconfig::read(&path)));
    let unreadable = |source| Unasked::Unreadable {
        path: kubeconfig.to_owned(),
        source,
    };
    match timeout_at(deadline, reading).await {
        Ok(read) => read.map_err(|error| unreadable(std::io::Error::other(error)))?,
        Err(_) => Err(unreadable(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Credentials that cannot be used, without a part of them.
fn unusable(error: &kube::Error) -> String {
    let words = match error {
        kube::Error::RustlsTls(_) => {
            "its client certificate, key or certificate authority cannot be used"
        }
        kube::Error::Auth(_) => "its token cannot be used",
        _ => "its credentials cannot be used",
    };
    words.to_owned()
}

/// The last error of the chain says what happened; those before it, in which part of the client.
fn root_cause(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    printable(&cause.to_string())
}

/// The API server's own word that it has no object of this name. A proxy before it, or another server, has other pages
/// for a path that it does not know.
fn is_not_found(body: &[u8], collection: &str, name: &str) -> bool {
    let status: Option<Failure> = serde_json::from_slice(body).ok();
    status.is_some_and(|status| {
        status.kind == "Status"
            && status.reason == "NotFound"
            && status.details.name == name
            && collection.ends_with(&format!("/{}", status.details.kind))
    })
}

/// How long the API server wants to be left alone: in seconds, as the API server writes it.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.trim().parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs).max(PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_api_servers_own_word_says_that_an_object_does_not_exist() {
        let real = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
            "details": {"name": "node-1", "kind": "nodes"}, "code": 404});
        let nodes = "/api/v1/nodes";
        assert!(is_not_found(real.to_string().as_bytes(), nodes, "node-1"));
        assert!(!is_not_found(real.to_string().as_bytes(), nodes, "node-2"));
        let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
        assert!(!is_not_found(
            real.to_string().as_bytes(),
            csi_nodes,
            "node-1"
        ));
        for other in [
            "default backend - 404",
            "404 page not found\n",
            "<html></html>",
            "{}",
            r#"{"kind": "Status", "reason": "Forbidden"}"#,
            // Of a gateway that does not know the path.
            r#"{"kind": "Status", "reason": "NotFound"}"#,
            r#"{"kind": "Status", "reason": "NotFound", "details": {}}"#,
            r#"{"kind": "Status", "reason": "NotFound", "details": {"kind": "nodes"}}"#,
        ] {
            assert!(!is_not_found(other.as_bytes(), nodes, "node-1"), "{other}");
        }
    }

    #[test]
    fn a_wish_for_patience_may_be_absurd() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), PAUSE);
        for (text, seconds) in [("7", 7), ("0", 1), ("-1", 1), ("soon", 1)] {
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(retry_after(&headers).as_secs(), seconds, "{text}");
        }
        headers.insert(RETRY_AFTER, u64::MAX.to_string().parse().unwrap());
        assert_eq!(Instant::now().checked_add(retry_after(&headers)), None);
    }
}
