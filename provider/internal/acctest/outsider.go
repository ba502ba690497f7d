package acctest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Someone is a client of the hub that is not Terraform.
func Someone(t *testing.T) *Outsider { t.Helper(); return OutsiderOf(t, Acc.Hub) }

// OutsiderOf is a client of another hub or cluster.
func OutsiderOf(t *testing.T, process *testhub.Process) *Outsider {
	t.Helper()
	if process == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	client, err := hub.NewClient(kube.Connection{KubeconfigPath: process.Kubeconfig}, "someone",
		kube.DefaultRetryBudget)
	if err != nil {
		t.Fatal(err)
	}
	return &Outsider{T: t, Client: client}
}

// Outsider acts on objects beside Terraform: a person with kubectl, an agent, a
// controller.
type Outsider struct {
	T      *testing.T
	Client *kube.Client
}

// WithToken is a client with a token in place of the outsider's rights, as an
// agent's.
func (o *Outsider) WithToken(token string) *kube.Client {
	o.T.Helper()
	ca, err := o.Client.CAData()
	if err != nil {
		o.T.Fatal(err)
	}
	client, err := hub.NewClient(kube.Connection{Host: o.Client.Host(), CA: string(ca), Token: token}, "agent",
		kube.DefaultRetryBudget)
	if err != nil {
		o.T.Fatal(err)
	}
	return client
}

// OutsiderManager is the field manager of people with kubectl.
const OutsiderManager = "kubectl-edit"

// Context ends after a minute.
func (o *Outsider) Context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// Get reads an object that has to be there.
func (o *Outsider) Get(object kube.Object, namespace, name string) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.Get(ctx, object, namespace, name); err != nil {
		o.T.Fatal(err)
	}
}

// Exists reports whether the object is there.
func (o *Outsider) Exists(object kube.Object, namespace, name string) bool {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	err := o.Client.Get(ctx, object, namespace, name)
	if err != nil && !kube.IsNotFound(err, name) {
		o.T.Fatal(err)
	}
	return err == nil
}

// Patch sends a merge patch.
func (o *Outsider) Patch(object kube.Object, namespace, name string, patch string) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	object.SetNamespace(namespace)
	object.SetName(name)
	if err := o.Client.MergePatch(ctx, object, OutsiderManager, json.RawMessage(patch)); err != nil {
		o.T.Fatal(err)
	}
}

// Apply takes over what it sets.
func (o *Outsider) Apply(object kube.Object) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.Apply(ctx, object, kube.ApplyOptions{Manager: OutsiderManager, Force: true}); err != nil {
		o.T.Fatal(err)
	}
}

// Remove deletes an object and waits until it is gone.
func (o *Outsider) Remove(object kube.Object, namespace, name string) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.DeleteAndWait(ctx, object, namespace, name); err != nil {
		o.T.Fatal(err)
	}
}

// Wait waits until an object is as done says.
func (o *Outsider) Wait(object kube.Object, namespace, name string, done func() bool) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.Wait(ctx, object, namespace, name, func(exists bool) (bool, error) { return exists && done(), nil }); err != nil {
		o.T.Fatalf("waiting for %s: %v", name, err)
	}
}

// Namespace makes a namespace for a test.
func (o *Outsider) Namespace(name string) {
	o.T.Helper()
	object := &corev1.Namespace{}
	object.Name = name
	o.Apply(object)
	o.T.Cleanup(func() {
		ctx, cancel := o.Context()
		defer cancel()
		_, _ = o.Client.Delete(ctx, &corev1.Namespace{}, "", name, "")
	})
}

// setConditions plays the agent: it reports conditions of a managed cluster.
func (o *Outsider) setConditions(name string, types ...string) {
	o.T.Helper()
	object := &clusterv1.ManagedCluster{}
	o.Get(object, "", name)
	for _, condition := range types {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test", LastTransitionTime: metav1.Now(),
		})
	}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.UpdateSubresource(ctx, object, "status", OutsiderManager); err != nil {
		o.T.Fatal(err)
	}
}

// Joined plays an agent that has joined.
func (o *Outsider) Joined(name string) {
	o.T.Helper()
	o.setConditions(name, cluster.ConditionJoined, cluster.ConditionAvailable)
}

// WaitForKind waits until the server serves a kind, by its list.
func (o *Outsider) WaitForKind(list runtime.Object) {
	o.T.Helper()
	ctx, cancel := o.Context()
	defer cancel()
	for {
		err := o.Client.List(ctx, list, kube.ListOptions{})
		if err == nil {
			return
		}
		if !kube.IsKindNotServed(err) {
			o.T.Fatal(err)
		}
		select {
		case <-ctx.Done():
			o.T.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
