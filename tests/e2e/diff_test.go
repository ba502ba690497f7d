package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

const (
	shopConfig = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"shop"},` +
		`"data":{"size":%q}}`
	// regionalSet is a replica set whose content differs by the WorkOverride regions.
	regionalSet = `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata:
  namespace: default
  name: regional
  annotations: {muster-fleet.io/override: %s}
spec:
  placementRefs: [{name: all}]
  manifestWorkTemplate:
    workload:
      manifests:
      - {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: "at-{{REGION}}"}, data: {a: b}}
`
	regions = `
---
apiVersion: muster-fleet.io/v1alpha1
kind: WorkOverride
metadata: {namespace: default, name: regions}
spec: {values: [{name: REGION, label: region}]}
`
)

// What "muster diff" shows is what the clusters say, and how it ends is what "kubectl diff" does.
func TestDiff(t *testing.T) {
	members := upFleet(t, fleet.UpOptions{Clusters: 2, Driver: fleet.DriverDevcluster})
	hub := admin(t, members[0])
	for i, region := range []string{"eu", "us"} {
		name := fmt.Sprintf("cluster%d", i+1)
		join(t, hub, admin(t, members[i+1]), name, "")
		testkit.Must(t, hub.Patch(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"region":%q}}}`, region))))
	}
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "shop"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: fmt.Appendf(nil, shopConfig, "small")}}}
	create(t, hub, w)
	applied := &corev1.ConfigMap{}
	testkit.Eventually(t, func() error {
		return admin(t, members[1]).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop"}, applied)
	})
	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"},
	}
	binding.Spec.ClusterSet = "default"
	create(t, hub, binding)
	create(t, hub, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}})
	testkit.Eventually(t, func() error {
		p := &clusterv1beta1.Placement{}
		if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "all"}, p); err != nil {
			return err
		}
		if p.Status.NumberOfSelectedClusters != 2 {
			return fmt.Errorf("the placement selects %d clusters", p.Status.NumberOfSelectedClusters)
		}
		return nil
	})

	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	small, large := file(
		"small.json",
		fmt.Sprintf(shopConfig, "small"),
	), file(
		"large.json",
		fmt.Sprintf(shopConfig, "large"),
	)
	secret := file("secret.yaml", "{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: s}, "+
		"stringData: {password: hunter2}}")
	odd := file("odd.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: nowhere, name: odd}}")
	widget := file(
		"widget.yaml",
		"{apiVersion: example.com/v1, kind: Widget, metadata: {namespace: default, name: w}}",
	)
	named := file("named.yaml", fmt.Sprintf(regionalSet, "regions")+regions)
	inline := file("inline.yaml", fmt.Sprintf(regionalSet, `'{"values":[{"name":"REGION","label":"region"}]}'`))
	lacking := file("lacking.yaml", fmt.Sprintf(regionalSet, `'{"values":[{"name":"REGION","label":"zone"}]}'`))
	mistyped := file("mistyped.yaml", fmt.Sprintf(regionalSet, "regons"))
	notYAML := file("not.yaml", "a: b: c")
	empty := t.TempDir()
	for name, x := range map[string]struct {
		args   []string
		status int
		says   []string
	}{
		"nothing changes": {[]string{"-f", small, "--cluster", "cluster1", "--work", "shop"}, 0,
			[]string{"1 cluster asked, 1 without changes."}},
		"a change here and a creation there": {[]string{"-f", large, "--placement", "default/all", "--work", "shop"}, 1,
			[]string{"ConfigMap default/shop", "~ change in cluster1: data.size: \"small\" → \"large\"",
				"+ create in cluster2",
				"2 clusters asked, 2 with changes."}},
		"a deletion": {[]string{"-f", secret, "--cluster", "cluster1", "--work", "shop"}, 1,
			[]string{"+ create in cluster1", "ConfigMap default/shop", "- delete in cluster1", "!hunter2"}},
		"a namespace that is not there": {[]string{"-f", odd, "--cluster", "cluster1"}, 2,
			[]string{"! refused in cluster1", `"nowhere"`}},
		"a kind that nobody knows": {[]string{"-f", widget, "--cluster", "cluster1,cluster2"}, 2,
			[]string{"Widget default/w", "cluster1", "cluster2"}},
		"values per cluster, by name": {[]string{"-f", named}, 1,
			[]string{"ConfigMap default/at-eu", "+ create in cluster1", "ConfigMap default/at-us",
				"+ create in cluster2"}},
		"values per cluster, inline": {[]string{"-f", inline}, 1,
			[]string{"ConfigMap default/at-eu", "ConfigMap default/at-us"}},
		"clusters without a value": {[]string{"-f", lacking}, 2,
			[]string{"cluster1", "the value REGION", "no label zone"}},
		"an override that is not there": {[]string{"-f", mistyped}, 2,
			[]string{"the set's namespace has no WorkOverride regons"}},
		"no files": {[]string{"--cluster", "cluster1"}, 2, []string{"say with -f where the manifests are"}},
		"no manifests": {[]string{"-f", empty, "--cluster", "cluster1"}, 2,
			[]string{"there are no manifests in " + empty}},
		"no such file": {[]string{"-f", "/nowhere.yaml", "--cluster", "cluster1"}, 2, []string{"-f /nowhere.yaml"}},
		"not YAML": {[]string{"-f", notYAML, "--cluster", "cluster1"}, 2,
			[]string{"not.yaml, document 1 is not YAML"}},
		"no clusters": {[]string{"-f", small}, 2, []string{"say with --cluster or --placement"}},
		"half a placement": {[]string{"-f", small, "--placement", "all"}, 2,
			[]string{`--placement "all" does not name a placement`}},
		"a placement that is not there": {[]string{"-f", small, "--placement", "default/none"}, 2,
			[]string{"read the placement default/none"}},
		"a cluster that is not there": {[]string{"-f", small, "--cluster", "cluster3"}, 2, []string{"cluster3"}},
		"works and objects": {[]string{"-f", inline, "-f", small}, 2,
			[]string{"is a ConfigMap, beside works and replica sets"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := run(t, append([]string{"diff", "--kubeconfig", members[0].Kubeconfig}, x.args...)...)
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			}
			if status != x.status {
				t.Errorf("it ends with %d, want %d", status, x.status)
			}
			for _, want := range x.says {
				unwanted, not := strings.CutPrefix(want, "!")
				if strings.HasPrefix(want, "! ") {
					unwanted, not = want, false
				}
				if strings.Contains(out+errOut, unwanted) == not {
					t.Errorf("it has to say %q:\n%s%s", want, out, errOut)
				}
			}
		})
	}
	unchanged := &corev1.ConfigMap{}
	testkit.Must(t, admin(t, members[1]).Get(t.Context(), client.ObjectKeyFromObject(applied), unchanged))
	if unchanged.ResourceVersion != applied.ResourceVersion {
		t.Error("a preview has changed an object")
	}
}
