//! Access that is missing or wrong, and the registry asked by hand.

use felt::control::kube::KubeAccess;
use felt::control::registry::kube::{AnnotationPrefix, KubeChoice, KubeRegistry, NodeIdentity};
use felt::control::registry::{Registry as _, RegistryAdmin as _, RegistryError};
use felt::lab::Place;
use serde_json::json;

use crate::cluster::Cluster;
use crate::kube_support::{ADMIN, FELT};
use crate::lab::{PATIENCE, eventually};

#[test]
fn a_node_without_rights_says_so_once_and_goes_on_when_it_has_them() {
    let mut cluster = Cluster::with_objects("access", 1);
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = crate::manifest::object("ClusterRoleBinding");
    cluster.server.delete(&format!("{path}/felt"));
    cluster.start(1, &[]);
    eventually("it says what is missing", PATIENCE, || cluster.log(1).contains("cannot get resource").then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(cluster.log(1).matches("cannot get resource").count(), 1, "{}", cluster.log(1));
    cluster.server.create(path, &binding);
    cluster.wait_ready(1);
}

#[test]
fn the_registry_by_hand() {
    let cluster = Cluster::with_objects("hand", 1);
    cluster.create_flannel("b", "10.244.9.0/24", "172.30.1.99");
    cluster.create_flannel("a", "10.244.10.0/24", "172.30.1.98");
    cluster.create_node("odd", "10.244.11.0/24", &json!({"flannel.alpha.coreos.com/kube-subnet-manager": "true"}));
    let choice = |token: &str| KubeChoice {
        access: KubeAccess { api_url: None, kubeconfig: Some(cluster.server.kubeconfig(token)) },
        prefix: AnnotationPrefix::default(),
        net_config: cluster.net_config(),
        node: NodeIdentity::Unknown,
        set_condition: true,
    };
    let (felt, nobody) = (choice(FELT), choice("no-such-token"));
    let away = KubeChoice {
        access: KubeAccess { api_url: Some("https://127.0.0.1:1".into()), ..choice(ADMIN).access },
        ..choice(ADMIN)
    };
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let registry = KubeRegistry::new(&felt).unwrap();
            let leases = registry.leases().await.unwrap();
            let subnets: Vec<_> = leases.iter().map(|lease| lease.subnet.to_string()).collect();
            assert_eq!(subnets, ["10.244.9.0-24", "10.244.10.0-24"]);
            assert!(leases.iter().all(felt::lease::Lease::is_reservation));
            assert!(registry.config().await.unwrap().contains("10.244.0.0/16"));
            let subnet = leases[0].subnet;
            for refused in [
                registry.revoke(&subnet).await.unwrap_err(),
                registry.unreserve(&subnet).await.unwrap_err(),
                registry.reservations().await.unwrap_err(),
                registry.put_config("{}").await.unwrap_err(),
                registry.wanted_address().await.unwrap_err(),
            ] {
                assert!(matches!(refused, RegistryError::Unsupported(_)), "{refused}");
            }
            let error = KubeRegistry::new(&nobody).unwrap().leases().await.unwrap_err();
            assert!(error.to_string().contains("401"), "{error}");
            assert!(KubeRegistry::new(&away).unwrap().leases().await.unwrap_err().is_unreachable());
        });
    };
    cluster.lab.netns(Place::Hub).unwrap().run_in(ask).unwrap();
}
