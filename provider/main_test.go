package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// acc is what the acceptance tests share: one hub, and one dev cluster that is
// started when a test first needs it.
var acc accState

type accState struct {
	dir     string
	builder testhub.Builder
	hub     *testhub.Process

	clusterOnce sync.Once
	cluster     *testhub.Process
	clusterErr  error
}

// hubKubeconfig is where the hub's kubeconfig is; empty without a hub.
func (a *accState) hubKubeconfig() string {
	if a.hub == nil {
		return ""
	}
	return a.hub.Kubeconfig
}

// TestMain starts a hub when acceptance tests are asked for.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if os.Getenv("TF_ACC") == "" {
		return m.Run()
	}
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "muster-provider-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	acc.dir = dir
	program, err := acc.builder.Path(dir)
	if err != nil {
		return fail(err)
	}
	if acc.hub, err = testhub.StartHub(program, filepath.Join(dir, "hub")); err != nil {
		return fail(err)
	}
	if err := os.Setenv("MUSTER_KUBECONFIG", acc.hub.Kubeconfig); err != nil {
		return fail(err)
	}
	code := m.Run()
	for _, process := range []*testhub.Process{acc.cluster, acc.hub} {
		if process == nil {
			continue
		}
		if err := process.Stop(); err != nil {
			code = fail(err)
		}
	}
	return code
}

// devCluster is the dev cluster of the tests.
func devCluster(t *testing.T) *testhub.Process {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	acc.clusterOnce.Do(func() {
		program, err := acc.builder.Path(acc.dir)
		if err != nil {
			acc.clusterErr = err
			return
		}
		acc.cluster, acc.clusterErr = testhub.StartCluster(program, filepath.Join(acc.dir, "cluster"))
	})
	if acc.clusterErr != nil {
		t.Fatal(acc.clusterErr)
	}
	return acc.cluster
}

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"muster": providerserver.NewProtocol6WithError(New("test")()),
		"echo":   echoprovider.NewProviderServer(),
	}
}

// accTest runs steps against the shared hub.
func accTest(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: factories(), Steps: steps})
}

// someone is a client of the hub that is not Terraform.
func someone(t *testing.T) *outsider { t.Helper(); return outsiderOf(t, acc.hub) }

func outsiderOf(t *testing.T, process *testhub.Process) *outsider {
	t.Helper()
	if process == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	client, err := newClient(kube.Connection{KubeconfigPath: process.Kubeconfig}, "someone", kube.DefaultRetryBudget)
	if err != nil {
		t.Fatal(err)
	}
	return &outsider{t: t, client: client}
}

// outsider acts on objects beside Terraform: a person with kubectl, an agent, a
// controller.
type outsider struct {
	t      *testing.T
	client *kube.Client
}

// withToken is a client with a token in place of the outsider's rights, as an
// agent's.
func (o *outsider) withToken(token string) *kube.Client {
	o.t.Helper()
	ca, err := o.client.CAData()
	if err != nil {
		o.t.Fatal(err)
	}
	client, err := newClient(kube.Connection{Host: o.client.Host(), CA: string(ca), Token: token}, "agent", kube.DefaultRetryBudget)
	if err != nil {
		o.t.Fatal(err)
	}
	return client
}

const outsiderManager = "kubectl-edit"

func (o *outsider) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

func (o *outsider) get(object kube.Object, namespace, name string) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.Get(ctx, object, namespace, name); err != nil {
		o.t.Fatal(err)
	}
}

// exists reports whether the object is there.
func (o *outsider) exists(object kube.Object, namespace, name string) bool {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	err := o.client.Get(ctx, object, namespace, name)
	if err != nil && !kube.IsNotFound(err, name) {
		o.t.Fatal(err)
	}
	return err == nil
}

func (o *outsider) patch(object kube.Object, namespace, name string, patch string) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	object.SetNamespace(namespace)
	object.SetName(name)
	if err := o.client.MergePatch(ctx, object, outsiderManager, json.RawMessage(patch)); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outsider) apply(object kube.Object) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.Apply(ctx, object, kube.ApplyOptions{Manager: outsiderManager, Force: true}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outsider) remove(object kube.Object, namespace, name string) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.DeleteAndWait(ctx, object, namespace, name); err != nil {
		o.t.Fatal(err)
	}
}

// wait waits until an object is as done says.
func (o *outsider) wait(object kube.Object, namespace, name string, done func() bool) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.Wait(ctx, object, namespace, name, func(exists bool) (bool, error) { return exists && done(), nil }); err != nil {
		o.t.Fatalf("waiting for %s: %v", name, err)
	}
}

// namespace makes a namespace for a test.
func (o *outsider) namespace(name string) {
	o.t.Helper()
	object := &corev1.Namespace{}
	object.Name = name
	o.apply(object)
	o.t.Cleanup(func() {
		ctx, cancel := o.context()
		defer cancel()
		_, _ = o.client.Delete(ctx, &corev1.Namespace{}, "", name, "")
	})
}

// setConditions plays the agent: it reports conditions of a managed cluster.
func (o *outsider) setConditions(name string, types ...string) {
	o.t.Helper()
	object := &clusterv1.ManagedCluster{}
	o.get(object, "", name)
	for _, condition := range types {
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "by the test", LastTransitionTime: metav1.Now(),
		})
	}
	ctx, cancel := o.context()
	defer cancel()
	if err := o.client.UpdateSubresource(ctx, object, "status", outsiderManager); err != nil {
		o.t.Fatal(err)
	}
}

// joined plays an agent that has joined.
func (o *outsider) joined(name string) {
	o.t.Helper()
	o.setConditions(name, cluster.ConditionJoined, cluster.ConditionAvailable)
}

// waitForKind waits until the server serves a kind, by its list.
func (o *outsider) waitForKind(list runtime.Object) {
	o.t.Helper()
	ctx, cancel := o.context()
	defer cancel()
	for {
		err := o.client.List(ctx, list, kube.ListOptions{})
		if err == nil {
			return
		}
		if !kube.IsKindNotServed(err) {
			o.t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			o.t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
