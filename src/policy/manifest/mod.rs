//! How Kubernetes writes objects, read into [`model`](super::model).
//!
//! One JSON value comes in, an object or a list of them, and model objects come out, with the API's defaults filled in and a
//! [`Remark`] for each part that could not be understood. Files, YAML and watches are the business of whoever calls [`read()`].
//!
//! # What is not understood fails closed
//!
//! An API server refuses most of this, but files and newer servers do not. Where a kind and a name are known a policy comes out,
//! whatever its body is like, so that nothing is open because of a typing error and a later deletion finds what to delete:
//!
//! | not understood | in a `NetworkPolicy` | in the cluster's policies |
//! |---|---|---|
//! | the spec as a whole | every pod of the namespace isolated, nobody allowed | everything denied to every pod |
//! | pod selector, subject | the same, in the directions it speaks of | every pod is a subject; see *hardened* |
//! | an unknown field of the spec | its pods isolated in both directions, nobody allowed | everything denied to its pods |
//! | policy types | isolated in both directions | – |
//! | tier, priority | – | the first of the Admin tier, *hardened* |
//! | the rules of a direction | none: nobody allowed | everything denied in it |
//! | a rule, a field of it | it matches nobody | Accept: nobody; Deny, Pass: everything denied |
//! | an action | – | Deny |
//! | a peer | it matches nobody | Accept: nobody; Deny, Pass: everything denied |
//! | a port | it matches none | Accept: none; Deny, Pass: its peers denied on every port |
//!
//! *Hardened*: Accept rules match nobody and Pass rules deny, so that what the policy might have refused is refused. Fields
//! outside the spec are ignored, and so is a field that is `null`.
//!
//! Source: the API types and their validation in `k8s.io/api` and `sigs.k8s.io/network-policy-api`.

mod at;
mod block;
mod cluster_peer;
mod cluster_policy;
mod cluster_ports;
mod head;
mod network_peer;
mod network_policy;
mod place;
mod pod;
mod port;
mod read;
mod remark;
mod selector;

pub use read::{Read, read, read_text};
pub use remark::{ManifestError, Remark};
