package provider_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// TestAccLogicalCloudExample applies the example logical-cloud to a real cluster with
// a real agent: the namespace and the rights arrive, the plan after it is empty, and
// the rights go with the cloud.
func TestAccLogicalCloudExample(t *testing.T) {
	cluster := acctest.DevCluster(t)
	w := copyExamples(t).at(t, acctest.NewWorkspace(t), "logical-cloud")
	with := []string{
		"-no-color", "-input=false", "-var", "fleet_dir=" + startedFleet(t, map[string]string{"edge1": cluster.Kubeconfig}),
		"-var", `clusters=["edge1"]`,
	}
	w.MustRun(append([]string{"apply", "-auto-approve"}, with...)...)
	inside := acctest.OutsiderOf(t, cluster)
	inside.Get(&corev1.Namespace{}, "", "team-a-prod")
	roles := func() int {
		list := &rbacv1.RoleList{}
		ctx, cancel := inside.Context()
		defer cancel()
		if err := inside.Client.List(ctx, list, kube.ListOptions{Namespace: "team-a-prod"}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if roles() != 1 {
		t.Errorf("the cluster has %d roles for the cloud", roles())
	}
	acctest.Says(t, w.MustRun(append([]string{"plan"}, with...)...), "No changes.")
	w.MustRun(append([]string{"destroy", "-auto-approve"}, with...)...)
	if roles() != 0 {
		t.Error("the rights are still there")
	}
	inside.Get(&corev1.Namespace{}, "", "team-a-prod") // on_delete is Keep
}
