//! The answer of an API server to a request: authentication, the Node authorizer, the object.

use serde_json::{Value, json};

use super::objects::State;
use super::request::Request;

const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes/";
const CSI_DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers/";
const NODES: &str = "/api/v1/nodes/";
const REVIEWS: &str = "/apis/authentication.k8s.io/";

/// A code and a body.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Body,
}

/// What follows the headers.
pub(super) enum Body {
    Object(Value),
    /// For a path that the server does not have at all.
    Text(&'static str),
}

impl Answer {
    /// What an API server without a fault answers.
    pub(super) fn to(request: &Request, state: &State) -> Self {
        let Some(user) = request.user.as_deref() else {
            return Self::status(401, "Unauthorized", "Unauthorized", Value::Null);
        };
        let path = request.route();
        if let Some(api) = path.strip_prefix(REVIEWS)
            && request.method == "POST"
            && let Some(version) = api.strip_suffix("/selfsubjectreviews")
        {
            return review(user, version, state);
        }
        let Some((resource, name)) = Resource::of(path).filter(|_| request.method == "GET") else {
            return forbidden(user, &request.method, path);
        };
        if !resource.is_allowed(user, name) {
            return forbidden(user, "get", path);
        }
        match resource.find(name, state) {
            Some(object) => Self {
                code: 200,
                body: Body::Object(object.clone()),
            },
            None => not_found(&resource, name),
        }
    }

    /// A `Status` object for a failure.
    pub(super) fn status(code: u16, reason: &str, message: &str, details: Value) -> Self {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        });
        if !details.is_null() {
            status["details"] = details;
        }
        Self {
            code,
            body: Body::Object(status),
        }
    }
}

struct Resource {
    plural: &'static str,
    group: &'static str,
    /// A node may read only the object that has its own name.
    is_own: bool,
}

impl Resource {
    /// The resource and the object's name; none for a list or a subresource.
    fn of(path: &str) -> Option<(Resource, &str)> {
        let resource = |plural, group, is_own| Resource {
            plural,
            group,
            is_own,
        };
        let (resource, name) = if let Some(name) = path.strip_prefix(CSI_NODES) {
            (resource("csinodes", "storage.k8s.io", true), name)
        } else if let Some(name) = path.strip_prefix(CSI_DRIVERS) {
            (resource("csidrivers", "storage.k8s.io", false), name)
        } else {
            let name = path.strip_prefix(NODES)?;
            (resource("nodes", "", true), name)
        };
        (!name.is_empty() && !name.contains('/')).then_some((resource, name))
    }

    /// Kubelets are under the Node authorizer; everyone else here may read.
    fn is_allowed(&self, user: &str, name: &str) -> bool {
        let node = user.strip_prefix("system:node:");
        !self.is_own || node.is_none_or(|node| node == name)
    }

    fn find<'a>(&self, name: &str, state: &'a State) -> Option<&'a Value> {
        let object = match self.plural {
            "csinodes" => state.csi_node.as_ref(),
            "nodes" => state.node.as_ref(),
            _ => state.csi_drivers.get(name),
        };
        object.filter(|object| object["metadata"]["name"] == name)
    }
}

/// SelfSubjectReview: v1 from 1.28 on, v1beta1 in 1.27, v1alpha1 in 1.26.
fn review(user: &str, version: &str, state: &State) -> Answer {
    let served = match state.minor {
        28.. => "v1",
        27 => "v1beta1",
        26 => "v1alpha1",
        // No role has the resource there, and the authorizer is asked before the path is looked up.
        _ if user.starts_with("system:node:") => {
            return forbidden(user, "create", "selfsubjectreviews");
        }
        _ => "",
    };
    if version != served {
        return Answer {
            code: 404,
            body: Body::Text("404 page not found\n"),
        };
    }
    Answer {
        code: 201,
        body: Body::Object(json!({
            "kind": "SelfSubjectReview",
            "apiVersion": format!("authentication.k8s.io/{version}"),
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"userInfo": {
                "username": user,
                "groups": ["system:nodes", "system:authenticated"],
            }},
        })),
    }
}

fn not_found(resource: &Resource, name: &str) -> Answer {
    let Resource { plural, group, .. } = resource;
    let full = match *group {
        "" => (*plural).to_owned(),
        group => format!("{plural}.{group}"),
    };
    let mut details = json!({"name": name, "kind": plural});
    if !group.is_empty() {
        details["group"] = (*group).into();
    }
    let message = format!("{full} {name:?} not found");
    Answer::status(404, "NotFound", &message, details)
}

fn forbidden(user: &str, verb: &str, what: &str) -> Answer {
    let message = format!("{what} is forbidden: User {user:?} cannot {verb} it");
    Answer::status(403, "Forbidden", &message, json!({}))
}
