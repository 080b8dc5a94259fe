//! A registration: dial, GetInfo, validate, NodeGetInfo, API writes, Notify; and the de-registration.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

use super::operations::Failed;
use super::record::{Event, Object};
use super::world::{Plugin, Stamp, Version, World};
use crate::channel::{self, Line};
use crate::proto::csi::node_client::NodeClient;
use crate::proto::csi::{NodeGetInfoRequest, NodeGetInfoResponse};
use crate::proto::registration::registration_client::RegistrationClient;
use crate::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};

type Client = RegistrationClient<Channel>;

/// The connection after GetInfo: the same one or, where the kubelet has closed it, a new one for each
/// call.
enum Speaking {
    On(Line),
    Apart,
}

impl Speaking {
    async fn line(self, world: &World, path: &Path) -> Result<Line, Failed> {
        match self {
            Speaking::On(line) => Ok(line),
            Speaking::Apart => dial(world, path).await,
        }
    }
}

fn client(line: &Line) -> Client {
    RegistrationClient::new(line.channel())
}

/// The kubelet's register operation. The steps after GetInfo differ between releases.
pub(super) async fn register(world: &World, path: &Path, stamp: Stamp) -> Result<(), Failed> {
    let line = dial(world, path).await?;
    let info = get_info(world, path, &mut client(&line)).await?;
    let speaking = if world.faults().notify_apart {
        drop(line);
        Speaking::Apart
    } else {
        Speaking::On(line)
    };
    if let Err(reason) = validate_plugin(world, path, &info) {
        reject(world, path, &info, speaking, &reason).await?;
        return Err(Failed);
    }

    // Before the registration itself, so that a link that is removed meanwhile leads to a
    // de-registration. A failure after this point leaves the path "registered" for the loop: before
    // 1.36 nothing removes it again.
    let plugin = Plugin {
        stamp,
        name: info.name.clone(),
    };
    world
        .actual
        .borrow_mut()
        .insert(path.to_owned(), plugin.clone());
    let delay = world.faults().delay_after_get_info;
    sleep(delay).await;

    let forgets = world.settings.release.forgets_failed_registrations();
    match install(world, path, &info).await {
        Ok(node_id) => world.ledger.write(Event::Register {
            name: info.name.clone(),
            path: path.to_owned(),
            endpoint: info.endpoint.clone(),
            node_id,
        }),
        Err(error) => {
            if forgets {
                world.actual.borrow_mut().remove(path);
            }
            let reason =
                format!("RegisterPlugin error -- plugin registration failed with err: {error}");
            reject(world, path, &info, speaking, &reason).await?;
            return if forgets { Err(Failed) } else { Ok(()) };
        }
    }

    let delay = world.faults().delay_before_notify;
    sleep(delay).await;
    let line = speaking.line(world, path).await?;
    let error = notify_registered(world, line).await.err();
    let stands = error.is_none() || !forgets;
    world.ledger.write(Event::Notified {
        name: info.name,
        path: path.to_owned(),
        error: error.clone(),
        stands,
    });
    if !stands {
        deregister(world, path, &plugin);
    }
    error.map_or(Ok(()), |_| Err(Failed))
}

/// The kubelet's unregister operation: by driver name, whatever the path.
pub(super) fn deregister(world: &World, path: &Path, plugin: &Plugin) {
    world.actual.borrow_mut().remove(path);
    let registered = uninstall(world, &plugin.name);
    world.ledger.write(Event::Deregister {
        name: plugin.name.clone(),
        path: path.to_owned(),
        registered,
    });
}

/// grpc-go's blocking dial: it retries a refused connect until the time is over.
async fn dial(world: &World, path: &Path) -> Result<Line, Failed> {
    let timing = world.settings.timing;
    let user_agent = world.settings.release.user_agent();
    let redial = world.settings.release.redial(timing.redial);
    let mut last = "context deadline exceeded".to_owned();
    let tries = async {
        let mut pause = timing.redial;
        loop {
            match channel::connect_as(path, user_agent, redial).await {
                Ok(line) => return line,
                Err(error) => last = error.to_string(),
            }
            sleep(pause).await;
            pause = pause.mul_f32(1.6);
        }
    };
    let dialled = timeout(timing.dial_timeout, tries).await;
    dialled.map_err(|_| {
        world.ledger.write(Event::DialFailed {
            path: path.to_owned(),
            error: last,
        });
        Failed
    })
}

async fn get_info(world: &World, path: &Path, client: &mut Client) -> Result<PluginInfo, Failed> {
    let call = client.get_info(InfoRequest {});
    match within(world.settings.timing.get_info, call).await {
        Ok(mut info) => {
            world.ledger.write(Event::Asked {
                path: path.to_owned(),
                name: info.name.clone(),
                endpoint: info.endpoint.clone(),
            });
            if info.endpoint.is_empty() {
                info.endpoint = path.display().to_string();
            }
            Ok(info)
        }
        Err(error) => {
            world.ledger.write(Event::ErrorLine {
                text: format!(
                    "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {}, err: {error}",
                    path.display()
                ),
            });
            Err(Failed)
        }
    }
}

fn validate_plugin(world: &World, path: &Path, info: &PluginInfo) -> Result<(), String> {
    if info.r#type != "CSIPlugin" {
        return Err(format!(
            "RegisterPlugin error -- no handler registered for plugin type: {} at socket {}",
            info.r#type,
            path.display()
        ));
    }
    let refused = match world.faults().refuse.clone() {
        Some(words) => Err(words),
        None => validate_versions(world, "ValidatePlugin", info).map(drop),
    };
    refused.map_err(|error| {
        format!(
            "RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver {} at endpoint {}: {error}",
            info.name, info.endpoint
        )
    })
}

fn validate_versions(world: &World, caller: &str, info: &PluginInfo) -> Result<Version, String> {
    let failed = format!(
        "kubernetes.io/csi: {caller} for CSI driver {:?} failed.",
        info.name
    );
    if info.supported_versions.is_empty() {
        return Err(format!(
            "{failed} Plugin returned an empty list for supported versions"
        ));
    }
    // Only 1.x is supported: it ignores 2.x, and refuses 0.x.
    let versions = info.supported_versions.iter();
    let highest = versions
        .filter_map(|version| parse_version(version))
        .filter(|version| version[0] == 1)
        .max()
        .ok_or_else(|| {
            format!(
                "{failed} None of the versions specified {:?} are supported.",
                info.supported_versions
            )
        })?;
    match world.drivers.borrow().get(&info.name) {
        Some(known) if known.version >= highest => Err(format!(
            "{failed} Another driver with the same name is already registered with a higher supported version: \"{}\"",
            known.version.map(|part| part.to_string()).join(".")
        )),
        _ => Ok(highest),
    }
}

fn parse_version(text: &str) -> Option<Version> {
    let mut parts = text.trim_start_matches('v').split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    let minor = parts.next()?.ok()?;
    let patch = parts.next().unwrap_or(Ok(0)).ok()?;
    Some([major, minor, patch])
}

/// The CSI plugin's RegisterPlugin: asks the driver itself, then writes. Returns the node id.
async fn install(world: &World, path: &Path, info: &PluginInfo) -> Result<String, String> {
    let version = validate_versions(world, "RegisterPlugin", info)?;
    world.learn(&info.name, version);
    let result = match node_get_info(world, &info.endpoint).await {
        Ok(node) => write_api_objects(world, &info.name, &node).map(|()| node.node_id),
        Err(error) => Err(error),
    };
    match &result {
        Ok(_) => world.install(&info.name, version),
        Err(_) if uninstall(world, &info.name) => world.ledger.write(Event::Deregister {
            name: info.name.clone(),
            path: path.to_owned(),
            registered: true,
        }),
        Err(_) => {}
    }
    result
}

async fn node_get_info(world: &World, endpoint: &str) -> Result<NodeGetInfoResponse, String> {
    let call = async {
        let channel = channel::connect(Path::new(endpoint))
            .await
            .map_err(|error| {
                Status::unavailable(format!("connection error: dial unix {endpoint}: {error}"))
            })?;
        NodeClient::new(channel)
            .node_get_info(NodeGetInfoRequest {})
            .await
    };
    within(world.settings.timing.node_get_info, call).await
}

/// The writes of a registration that change an object.
fn write_api_objects(world: &World, name: &str, node: &NodeGetInfoResponse) -> Result<(), String> {
    if node.node_id.is_empty() {
        return Err("error adding CSI driver node info: driverNodeID must not be empty".to_owned());
    }
    let down = world.faults().fail_api_writes.clone();
    let up = || down.clone().map_or(Ok(()), Err);
    world
        .ledger
        .write_api(Object::Node, name, |cluster| {
            up()?;
            cluster.install_on_node(name, node)
        })
        .map_err(|error| {
            format!(
                "error updating Node object with CSI driver node info: error updating node: {error}"
            )
        })?;
    world
        .ledger
        .write_api(Object::CsiNode, name, |cluster| {
            up()?;
            Ok(cluster.install_in_csi_node(name, node))
        })
        .map_err(|error: String| {
            format!("error updating CSINode object with CSI driver node info: {error}")
        })
}

/// The CSI plugin's unregisterDriver: true when the driver had been installed. A failed write only
/// causes a line in the log; labels stay on the node.
fn uninstall(world: &World, name: &str) -> bool {
    let known = world.drivers.borrow_mut().remove(name);
    let down = world.faults().fail_api_writes.clone();
    if let Some(error) = down {
        world.ledger.write(Event::ErrorLine {
            text: format!("kubernetes.io/csi: Error uninstalling CSI driver: {error}"),
        });
    } else {
        let ledger = &world.ledger;
        let Ok(()) = ledger.write_api::<Infallible>(Object::CsiNode, name, |cluster| {
            Ok(cluster.uninstall_from_csi_node(name))
        });
        let Ok(()) = ledger.write_api::<Infallible>(Object::Node, name, |cluster| {
            Ok(cluster.uninstall_from_node(name))
        });
    }
    known.is_some_and(|driver| driver.installed)
}

async fn notify_registered(world: &World, line: Line) -> Result<(), String> {
    let lost = {
        let mut faults = world.faults();
        let left = faults.lose_notify.checked_sub(1);
        faults.lose_notify = left.unwrap_or(0);
        left.is_some()
    };
    if lost {
        return Err("the connection was lost".to_owned());
    }
    notify(world, &mut client(&line), String::new()).await
}

async fn reject(
    world: &World,
    path: &Path,
    info: &PluginInfo,
    speaking: Speaking,
    reason: &str,
) -> Result<(), Failed> {
    world.ledger.write(Event::Rejected {
        name: info.name.clone(),
        path: path.to_owned(),
        error: reason.to_owned(),
    });
    let line = speaking.line(world, path).await?;
    let sent = notify(world, &mut client(&line), reason.to_owned()).await;
    sent.map_err(|error| {
        world.ledger.write(Event::ErrorLine {
            text: format!(
                "RegisterPlugin error -- failed to send error at socket {}, err: {error}",
                path.display()
            ),
        });
        Failed
    })
}

/// An empty error means registered.
async fn notify(world: &World, client: &mut Client, error: String) -> Result<(), String> {
    let call = client.notify_registration_status(RegistrationStatus {
        plugin_registered: error.is_empty(),
        error,
    });
    within(world.settings.timing.notify, call).await.map(drop)
}

/// A call with its deadline; the error reads as grpc-go's.
async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, String> {
    match timeout(deadline, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(format!(
            "rpc error: code = {:?} desc = {}",
            status.code(),
            status.message()
        )),
        Err(_) => {
            Err("rpc error: code = DeadlineExceeded desc = context deadline exceeded".to_owned())
        }
    }
}
