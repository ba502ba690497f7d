package action_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/hubtest"
	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// theHub has two clusters with agents, cluster1 and cluster2. Only the test of
// detaching uses the second.
var theHub *hubtest.Hub

func TestMain(m *testing.M) {
	if os.Getenv("TF_ACC") == "" {
		os.Exit(m.Run())
	}
	os.Exit(hubtest.Main(m, hubtest.Options{Clusters: 2, Join: true}, func(h *hubtest.Hub) { theHub = h }))
}

// someone is a client of the hub, or of one of its clusters, beside Terraform.
func someone(t *testing.T, at func(*hubtest.Hub) string) *acctest.Outsider {
	t.Helper()
	if theHub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	client, err := hub.NewClient(kube.Connection{KubeconfigPath: at(theHub)}, "someone", kube.DefaultRetryBudget)
	if err != nil {
		t.Fatal(err)
	}
	return &acctest.Outsider{T: t, Client: client}
}

func onHub(h *hubtest.Hub) string { return h.Kubeconfig }

// outcome is what an action said.
type outcome struct {
	progress []string
	warnings []embedded.Diagnostic
	err      error
}

// invoke runs an action over the protocol that Terraform speaks. on, which may be
// nil, is called with each progress message.
func invoke(t *testing.T, action string, config map[string]any, on func(string)) outcome {
	t.Helper()
	provider, err := embedded.New(t.Context(), "test", map[string]any{"kubeconfig_path": theHub.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	var mu sync.Mutex
	provider.Warn = func(d embedded.Diagnostic) { o.warnings = append(o.warnings, d) }
	o.err = provider.InvokeAction(t.Context(), action, config, func(message string) {
		mu.Lock()
		defer mu.Unlock()
		o.progress = append(o.progress, message)
		if on != nil {
			on(message)
		}
	})
	return o
}

// said fails the test unless the action succeeded and told all of these.
func (o outcome) said(t *testing.T, texts ...string) {
	t.Helper()
	if o.err != nil {
		t.Fatalf("it failed: %v\nprogress: %q", o.err, o.progress)
	}
	for _, text := range texts {
		if !slices.ContainsFunc(o.progress, func(p string) bool { return strings.Contains(p, text) }) {
			t.Errorf("it did not tell %q but %q", text, o.progress)
		}
	}
}

// failed fails the test unless the action failed with all of these.
func (o outcome) failed(t *testing.T, texts ...string) {
	t.Helper()
	if o.err == nil {
		t.Fatalf("it succeeded: %q", o.progress)
	}
	for _, text := range texts {
		if !strings.Contains(o.err.Error(), text) {
			t.Errorf("the error is not %q but %v", text, o.err)
		}
	}
}

// warned fails the test unless one warning has all of these.
func (o outcome) warned(t *testing.T, texts ...string) {
	t.Helper()
	for _, d := range o.warnings {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(d.Error(), text) }) {
			return
		}
	}
	t.Errorf("no warning has %q: %v", texts, o.warnings)
}

// newCluster makes a managed cluster that nobody but the test looks after.
func newCluster(o *acctest.Outsider, name string, accepted bool, labels map[string]string) {
	o.T.Helper()
	object := &clusterv1.ManagedCluster{}
	object.Name, object.Labels = name, labels
	object.Spec.HubAcceptsClient = ptr.To(accepted)
	o.Apply(object)
	o.T.Cleanup(func() {
		ctx, cancel := o.Context()
		defer cancel()
		_, _ = o.Client.Delete(ctx, &clusterv1.ManagedCluster{}, "", name, "")
	})
}

// joined plays the agent of a cluster that has joined, beside the hub's controllers.
func joined(o *acctest.Outsider, name string) {
	o.T.Helper()
	object := &clusterv1.ManagedCluster{}
	object.Name = name
	for _, condition := range []string{cluster.ConditionJoined, cluster.ConditionAvailable} {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test", LastTransitionTime: metav1.Now(),
		})
	}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.ApplyStatus(ctx, object, kube.ApplyOptions{Manager: acctest.OutsiderManager, Force: true}); err != nil {
		o.T.Fatal(err)
	}
}
