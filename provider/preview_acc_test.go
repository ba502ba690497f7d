package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// answering plays the agents of clusters: it answers previews by what answer says of a
// manifest in a cluster, until the test is over.
func answering(
	t *testing.T,
	o *acctest.Outsider,
	answer func(cluster string, m workv1.ManifestResourceMeta) v1alpha1.ObjectPreview,
) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		list := &v1alpha1.WorkPreviewList{}
		err := o.Client.WaitList(ctx, list, &v1alpha1.WorkPreview{}, kube.ListOptions{}, func() (bool, error) {
			for i := range list.Items {
				p := &list.Items[i]
				if !strings.HasPrefix(p.Namespace, "preview-") || len(p.Status.Conditions) > 0 {
					continue
				}
				meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
					Type: muster.ConditionPreviewed, Status: metav1.ConditionTrue, Reason: muster.ReasonPreviewed,
				})
				if p.Spec.Work == nil {
					p.Status.Objects = []v1alpha1.ObjectPreview{{
						ResourceMeta: workv1.ManifestResourceMeta{
							Ordinal:   -1,
							Version:   "v1",
							Kind:      "ConfigMap",
							Namespace: "shop",
							Name:      "web",
						},
						Outcome: v1alpha1.PreviewDelete,
					}}
				} else {
					for i := range p.Spec.Work.Workload.Manifests {
						p.Status.Objects = append(p.Status.Objects, answer(p.Namespace, workv1.ManifestResourceMeta{
							Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web",
						}))
					}
				}
				_ = o.Client.UpdateSubresource(ctx, p, "status", "agent") // a conflict comes with a further event
			}
			return false, nil
		})
		if ctx.Err() == nil {
			t.Errorf("the agents ended: %v", err)
		}
	}()
}

const previewed = `
resource "muster_managed_cluster_set" "preview" { name = "preview" }
resource "muster_managed_cluster_set_binding" "preview" {
  namespace   = "preview-shop"
  cluster_set = muster_managed_cluster_set.preview.name
}
resource "muster_managed_cluster" "preview" {
  for_each    = toset(["preview-a", "preview-b", "preview-c", "preview-d"])
  name        = each.key
  cluster_set = muster_managed_cluster_set.preview.name
}
resource "muster_cluster_acceptance" "preview" {
  for_each        = muster_managed_cluster.preview
  managed_cluster = each.key
}
resource "muster_placement" "preview" {
  namespace    = muster_managed_cluster_set_binding.preview.namespace
  name         = "everywhere"
  cluster_sets = ["preview"]
  tolerations  = [{ operator = "Exists" }]
  depends_on   = [muster_cluster_acceptance.preview]
}
`

// A plan asks the clusters, says what would happen where, and who did not answer; it
// quotes nothing that is secret, and changes nothing.
func TestAccAPlanPreviewsTheClusters(t *testing.T) {
	w := acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	o.Namespace("preview-shop")
	if said, ok := w.Apply(previewed); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	for _, name := range []string{"preview-a", "preview-b", "preview-d"} {
		o.Joined(name)
		o.Patch(
			&clusterv1.ManagedCluster{},
			"",
			name,
			`{"metadata":{"annotations":{"`+muster.WorkPreviewsAnnotation+`":"true"}}}`,
		)
	}
	answering(t, o, func(cluster string, m workv1.ManifestResourceMeta) v1alpha1.ObjectPreview {
		switch cluster {
		case "preview-b":
			return v1alpha1.ObjectPreview{ResourceMeta: m, Outcome: v1alpha1.PreviewRefused, Message: "not on a Friday"}
		case "preview-d":
			return v1alpha1.ObjectPreview{ResourceMeta: m, Outcome: v1alpha1.PreviewUnchanged}
		}
		return v1alpha1.ObjectPreview{ResourceMeta: m, Outcome: v1alpha1.PreviewChange, Changes: []v1alpha1.FieldChange{
			{Path: "data.a", From: `"before"`, To: `"after"`}, {Path: "data.n", From: "1", To: "2"},
			{Path: "spec.list[web].key", From: `"before"`, To: `"after"`},
		}}
	})
	set := func(content, body string) string {
		return previewed + fmt.Sprintf(`
resource "muster_manifest_work_replica_set" "preview" {
  namespace  = "preview-shop"
  name       = "web"
  placements = [{ name = muster_placement.preview.name }]
  %s
  %s
}
`, content, body)
	}
	const manifests = `manifests = ["{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, ` +
		`data: {a: after}}"]`
	const objects = `objects = [{ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "web", namespace = ` +
		`"shop" }, data = { a = "after" } }]`
	const writeOnly = `manifests_wo = [
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {a: after}}"
  ]
  manifests_wo_version = 1`
	for _, x := range []struct {
		name, config   string
		says, saysNone []string
	}{
		{"a replica set", set(manifests, `preview = "clusters"`), []string{
			`Preview: what manifest work replica set "preview-shop/web" does in the clusters`,
			`ConfigMap shop/web ~ change in preview-a: data.a: "before" → "after" data.n: 1 → 2`,
			`Preview: clusters would refuse objects of manifest work replica set "preview-shop/web"`,
			"! refused in preview-b: not on a Friday",
			"preview-c: can't be asked: its agent is Open Cluster Management's, is older than previews, or has " +
				"yet to join",
			"4 clusters asked, 1 with changes, 1 without changes, 1 with refusals, 1 without an answer.",
		}, []string{"Error"}},
		{"enforced", set(manifests, `preview = "clusters-enforced"`), []string{
			"Error: Preview: clusters would refuse objects of", "! refused in preview-b: not on a Friday",
			`set preview = "clusters"`,
		}, nil},
		{"not asked for", set(manifests, ""), []string{"1 to add"}, []string{"Preview"}},
		{"of objects, whose strings may be sensitive", set(objects, `preview = "clusters"`), []string{
			"data.a: another value (sensitive) data.n: 1 → 2",
		}, []string{"before"}},
		{"of what is write-only", set(writeOnly, `preview = "clusters"`), []string{
			"data.a: another value (sensitive) data.n: another value (sensitive)",
		}, []string{"before", "1 → 2"}},
		{"of sensitive fields", set(manifests, `preview = "clusters"
  sensitive_fields = ["data.*", "spec.list[0]"]`), []string{
			"data.a: another value (sensitive)", "spec.list[web].key: another value (sensitive)",
		}, []string{"before"}},
		{"by the provider block", strings.Replace(set(manifests, ""), previewed, previewed+"provider \"muster\" "+
			"{\n  preview = \"clusters\"\n}\n", 1),
			[]string{"! refused in preview-b"}, nil},
		{"not of this resource", strings.Replace(set(manifests, `preview = "none"`), previewed,
			previewed+"provider \"muster\" {\n  preview = \"clusters\"\n}\n", 1),
			[]string{"1 to add"}, []string{"Preview"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			said := w.Plan(x.config)
			acctest.Says(t, said, x.says...)
			for _, none := range x.saysNone {
				if strings.Contains(said, none) {
					t.Errorf("it says %q: %s", none, acctest.Excerpt(said))
				}
			}
		})
	}
	work := previewed + `
resource "muster_manifest_work" "preview" {
  managed_cluster = muster_cluster_acceptance.preview["preview-a"].managed_cluster
  name            = "web"
  preview         = "clusters"
  ` + manifests + `
}
`
	acctest.Says(t, w.Plan(work), `what manifest work "preview-a/`, "1 cluster asked, 1 with changes.")
	if said, ok := w.Apply(work); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, w.Plan(work), "No changes")
	acctest.Says(t, w.Plan(previewed), "- delete in preview-a", "1 to destroy")
	list := &v1alpha1.WorkPreviewList{}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.List(ctx, list, kube.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d previews are left (%v)", len(list.Items), err)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
}
