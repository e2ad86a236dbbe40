//! `felt policy matrix`, `explain` and `check` of the real binary.

mod cli_support;
mod policy_fixture;

use std::fs;

use cli_support::{Ran, felt, felt_with};
use serde_json::Value;

/// Two namespaces on two nodes, a default deny with an exception, and an egress policy; one pod has finished, one is its node.
const SHOP: &str = include_str!("policy_fixture/shop.yaml");

fn shop(line: &str) -> Ran {
    felt_with(line, &[], SHOP)
}

/// Asserts success without a word on standard error.
#[track_caller]
fn quiet(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    ran.stdout
}

#[test]
fn a_matrix_is_a_table_for_people() {
    insta::assert_snapshot!(
        "policy_matrix",
        quiet(shop("policy matrix -f - --external web=198.51.100.7 --probe TCP/5432,TCP/443"))
    );
}

#[test]
fn a_matrix_is_json_for_programs() {
    let json = quiet(shop("policy matrix -f - --external web=198.51.100.7 --format json"));
    let value: Value = serde_json::from_str(&json).unwrap();
    let asked: Vec<_> =
        value["probes"].as_array().unwrap().iter().map(|probe| format!("{}/{}", probe["protocol"], probe["port"])).collect();
    assert_eq!(asked, ["\"TCP\"/80", "\"TCP\"/443", "\"TCP\"/5432", "\"TCP\"/8080"]);
    insta::assert_snapshot!(
        "policy_matrix_json",
        quiet(shop("policy matrix -f - --external web=198.51.100.7 --format json --probe tcp/5432"))
    );
}

#[test]
fn a_matrix_is_a_page_that_needs_nothing_else() {
    let evil = SHOP.replace("name: quiet", "name: \"</script><img src=x>\"");
    let page = felt_with("policy matrix -f - --format html", &[], &evil);
    assert_eq!(page.code, Some(0), "{}", page.stderr);
    let page = page.stdout;
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http://", "https://", "src=\"", "href=", "@import", "url(", "<img", "{{"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("</script>").count(), 2);
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["tables"][0]["rows"], serde_json::json!([".beee", ".....", ".i...", ".i.--", "...--"]));
    // bot to db: both ends say why.
    let side = |which: &str| data["sides"][usize::try_from(data["tables"][0][which][0][1].as_u64().unwrap()).unwrap()].clone();
    assert_eq!(side("egress")["head"], "egress of ads/bot");
    assert!(side("ingress")["lines"][0].as_str().unwrap().contains("NetworkPolicy shop/db isolates it"), "{}", side("ingress"));
    assert_eq!(side("ingress")["allowed"], false);
    // A node has no say.
    assert_eq!(data["tables"][0]["egress"][3][0], -1);
}

#[test]
fn a_flow_is_explained() {
    let allowed = shop("policy explain --from shop/web --to shop/db --port TCP/5432 -f -");
    insta::assert_snapshot!("policy_explain_allowed", quiet(allowed));
    let refused = shop("policy explain --from ads/bot --to shop/db --port TCP/80 -f -");
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(5), ""));
    insta::assert_snapshot!("policy_explain_refused", refused.stdout);
    let json = shop("policy explain --json --from ads/bot --to 198.51.100.7 --port TCP/443 -f -");
    insta::assert_snapshot!("policy_explain_json", quiet(json));
}

#[test]
fn ends_are_found_by_name_or_address() {
    for (from, to, code, part) in [
        ("10.1.0.2", "shop/db", 0, "TCP/5432 from shop/web (10.1.0.2) to shop/db (10.1.1.2): allowed"),
        ("node:n2", "shop/db", 0, "a pod's own node may always talk to it"),
        ("ads/agent", "shop/db", 0, "from node:n2 (192.0.2.2)"),
        ("node:n1", "shop/db", 5, "egress of node:n1: no say, not a pod"),
        ("203.0.113.9", "shop/db", 5, "from 203.0.113.9"),
        ("ads/job", "shop/db", 2, "ads/job has finished"),
        ("ads/nobody", "shop/db", 2, "there is no pod ads/nobody"),
        ("node:n9", "shop/db", 2, "there is no node n9"),
        ("ext:web", "shop/db", 2, "there is no address named web"),
        ("shop", "shop/db", 2, "expected NAMESPACE/POD"),
        ("node:n1", "node:n2", 2, "neither node:n1 nor node:n2 is a pod"),
        ("2001:db8::1", "shop/db", 2, "no addresses of one family"),
    ] {
        let ran = shop(&format!("policy explain --from {from} --to {to} --port TCP/5432 -f -"));
        assert_eq!(ran.code, Some(code), "{from}: {ran:?}");
        let said = if code == 2 { &ran.stderr } else { &ran.stdout };
        assert!(said.contains(part), "{from} {to}: {said}");
    }
}

#[test]
fn expectations_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("shop.yaml");
    fs::write(&manifests, SHOP).unwrap();
    let check = |expectations: &str, flags: &str| {
        felt_with(&format!("policy check -f {} -e - {flags}", manifests.display()), &[], expectations)
    };
    let held = "allow:\n- {from: shop/web, to: {labels: {app: db}}, port: TCP/5432}\n\
                deny:\n- {from: ads/*, to: {namespaceLabels: {team: shop}}, port: [TCP/5432, UDP/53]}\n";
    assert_eq!(quiet(check(held, "")), "all 2 expectations hold: 5 flows are as they should be\n");
    let broken = "allow:\n- {from: ads/bot, to: shop/db, port: TCP/5432, note: ads read prices}\n\
                  deny:\n- {from: {}, to: shop/web, port: TCP/8080}\n";
    let ran = check(broken, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(5), ""), "{ran:?}");
    insta::assert_snapshot!("policy_check", ran.stdout);
    let ran = check(broken, "--json");
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &value["holds"], &value["flows"]), (Some(5), &Value::Bool(false), &Value::from(3)));
    assert_eq!((&value["differences"][0]["letter"], &value["differences"][0]["expected"]), (&"b".into(), &"allowed".into()));
    assert_eq!((&value["differences"][1]["from"], &value["differences"][1]["letter"]), (&"shop/db".into(), &".".into()));
    for (text, part) in [
        ("deny: [{from: shop/nobody, to: shop/db, port: TCP/1}]", "deny[0].from: there is no pod shop/nobody"),
        ("deny: [{from: shop/web, to: [shop/db, gone/*], port: TCP/1}]", "deny[0].to[1]: there is no namespace gone"),
        ("deny: [{from: {labels: {app: x}}, to: shop/db, port: TCP/1}]", "deny[0].from: no pod fits this selector"),
        ("deny: [{from: node:n1, to: node:n2, port: TCP/1}]", "deny[0]: there is no flow to check"),
        ("denied: []", "expected no fields but `allow`, `deny`, found `denied`"),
        ("deny: [", "standard input: line 1"),
        ("", "expected one document"),
    ] {
        let ran = check(text, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{text}: {ran:?}");
        assert!(ran.stderr.contains(part), "{text}: {}", ran.stderr);
    }
}

#[test]
fn a_bad_object_is_named_and_the_exit_code_tells() {
    let nameless = format!("{SHOP}---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: shop}}\n");
    let misspelt = SHOP.replace("  ingress:", "  ingres:");
    assert_ne!(misspelt, SHOP);
    let matrix = "policy matrix -f - --probe TCP/5432 --format json";
    let explain = "policy explain --from shop/web --to shop/web --port TCP/1 -f -";

    for line in [matrix, explain] {
        let ran = felt_with(line, &[], &nameless);
        assert!(ran.code == Some(2) && !ran.stdout.is_empty(), "{ran:?}");
        assert!(
            ran.stderr.starts_with("error: standard input, line ") && ran.stderr.contains("`metadata.name`"),
            "{}",
            ran.stderr
        );
        let ran = felt_with(&format!("{line} --keep-going"), &[], &nameless);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    // What is understood in part fails closed.
    let ran = felt_with(matrix, &[], &misspelt);
    assert!(ran.code == Some(0) && ran.stderr.contains("NetworkPolicy shop/db: `spec.ingres`"), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = serde_json::json!([".beee", "e.eee", ".i...", ".i.--", "...--"]);
    assert_eq!(value["probes"][0]["rows"], rows, "{}", ran.stdout);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("expect.yaml");
    fs::write(&file, "deny: [{from: ads/bot, to: shop/db, port: TCP/1}]").unwrap();
    let check = format!("policy check -f - -e {}", file.display());
    let codes = |line: &str| [SHOP, &misspelt, &nameless].map(|input| felt_with(line, &[], input).code);
    assert_eq!(codes(&check), [Some(0), Some(2), Some(2)]);
    assert_eq!(codes(&format!("{check} --keep-going")), [Some(0); 3]);
}

#[test]
fn folders_are_read_and_what_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("nested.yaml")).unwrap();
    let (front, back) = SHOP.split_at(SHOP.find("---\napiVersion: networking").unwrap());
    fs::write(folder.path().join("a.yml"), front).unwrap();
    fs::write(folder.path().join("b.yaml"), back).unwrap();
    fs::write(folder.path().join("notes.txt"), "{").unwrap();
    fs::write(folder.path().join(".hidden.yaml"), "{").unwrap();
    let from_folder = felt(&format!("policy matrix -f {}", folder.path().display()));
    assert_eq!(quiet(from_folder), quiet(shop("policy matrix -f -")));

    let torn = format!("policy matrix -f {} -f {}", folder.path().display(), folder.path().join("notes.txt").display());
    let ran = felt(&torn);
    assert!(ran.code == Some(2) && ran.stderr.contains("notes.txt: line 1") && !ran.stdout.is_empty(), "{ran:?}");
    for (line, part) in [
        ("policy matrix", "--file"),
        ("policy matrix -f /nowhere/a.yaml", "cannot read /nowhere/a.yaml"),
        ("policy matrix -f - --probe 80", "expected PROTOCOL/PORT"),
        ("policy matrix -f - --external web", "expected a name and its addresses"),
        ("policy check -f - -e -", "cannot both come from standard input"),
    ] {
        let ran = felt(line);
        assert!(ran.code == Some(2) && ran.stdout.is_empty() && ran.stderr.contains(part), "{line}: {ran:?}");
    }
}

#[test]
fn fixtures_give_their_own_tables() {
    let Some(folder) = policy_fixture::folder() else { return };
    let mut cells = 0;
    for case in ["cyclonus", "k8s-e2e", "semantics", "npapi/v1alpha1", "npapi/v1alpha2"] {
        let files = fs::read_dir(folder.join(case)).unwrap().map(|entry| entry.unwrap().path());
        cells += files.map(|file| policy_fixture::compare(&file)).sum::<usize>();
    }
    println!("{cells} cells");
    assert!(cells > 100_000, "only {cells} cells compared");
}
