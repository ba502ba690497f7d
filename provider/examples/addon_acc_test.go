package examples_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// TestAccAddOnExample applies the example addon to three real clusters with real agents:
// the add-on gets available, a change goes from cluster to cluster, one that breaks in
// the second cluster stops there and says so, the correction arrives everywhere, and the
// removal waits for the jobs that run before it.
func TestAccAddOnExample(t *testing.T) {
	t.Parallel() // It mostly waits, and has clusters of its own.
	first := sibling(t, acctest.DevCluster(t))
	clusters := map[string]*testhub.Process{"greet1": first, "greet2": sibling(t, first), "greet3": sibling(t, first)}
	kubeconfigs := map[string]string{}
	for name, cluster := range clusters {
		kubeconfigs[name] = cluster.Kubeconfig
	}
	w := copyExamples(t).at(t, acctest.NewTerraform(t), "addon")
	main := filepath.Join(w.Dir, "main.tf")
	with := []string{"-no-color", "-input=false", "-var", "fleet_dir=" + startedFleet(t, kubeconfigs), "-var", `clusters=["greet1","greet2","greet3"]`}
	apply := func(message, cluster, rollout string) (said string, ok bool) {
		t.Helper()
		return w.Run(append([]string{"apply", "-auto-approve", "-var", "message=" + message, "-var", fmt.Sprintf(`timeout={rollout=%q,cluster=%q}`, rollout, cluster)}, with...)...)
	}
	greets := func(want ...string) {
		t.Helper()
		var got []string
		for _, name := range []string{"greet1", "greet2", "greet3"} {
			greeting := &corev1.ConfigMap{}
			acctest.OutsiderOf(t, clusters[name]).Get(greeting, "default", "greeting")
			got = append(got, greeting.Data["text"])
		}
		if !slices.Equal(got, want) {
			t.Errorf("the clusters say %q, want %q", got, want)
		}
	}

	said, ok := apply("Hello", "1m", "2m")
	if !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	acctest.Says(t, said, `"greet1" = "True" "greet2" = "True" "greet3" = "True"`, "configured addons 3/3 completed with no errors")
	greets("Hello, greet1", "Hello, greet2", "Hello, greet3")
	acctest.Says(t, w.MustRun(append([]string{"plan", "-var", "message=Hello", "-var", `timeout={rollout="2m",cluster="1m"}`}, with...)...), "No changes.")

	t.Run("from cluster to cluster", func(t *testing.T) {
		order := followOrder(t, "greeter")
		if said, ok := apply("Bye", "1m", "2m"); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
		greets("Bye, greet1", "Bye, greet2", "Bye, greet3")
		if got := order(); !slices.Equal(got, []string{"greet1", "greet2", "greet3"}) {
			t.Errorf("the change went to %q", got)
		}
	})
	t.Run("new pods do not start", func(t *testing.T) {
		const well = `metadata = { labels = { app = "greeter" } }`
		failing := strings.Replace(well, "{ labels", `{ annotations = { "devcluster.muster-fleet.io/fail" = "no such greeting" }, labels`, 1)
		replace(t, main, well, failing)
		said, ok := apply("Bye", "15s", "30s")
		if ok {
			t.Error("a rollout is a success though no new pod runs")
		}
		acctest.Says(t, said, "greet1: Progressing is True", "work is not ready: Deployment default/greeter: ", "pod greeter-", "image registry.example.com/greeter:1: CrashLoopBackOff: no such greeting",
			"the rollout has given up on it", "keep what they have: greet2, greet3.")
		replace(t, main, failing, well)
		if said, ok := apply("Bye", "1m", "2m"); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
	})
	t.Run("broken in the second cluster", func(t *testing.T) {
		for _, name := range []string{"greet1", "greet3"} {
			acctest.OutsiderOf(t, clusters[name]).Apply(namespaceCalled("greetings"))
		}
		replace(t, main, `{ name = "greeting", namespace = "default" }`, `{ name = "greeting", namespace = "greetings" }`)
		said, ok := apply("Bye", "6s", "15s")
		if ok {
			t.Error("a rollout that stops is a success")
		}
		acctest.Says(t, said, `Not ready: add-on "greeter"`, "greet2: ManifestApplied is False", `namespaces "greetings" not found`, "the rollout has given up on it",
			"The rollout has stopped, because more clusters have failed than max_failures allows. Clusters that it has not reached, and that keep what they have: greet3.")
		acctest.OutsiderOf(t, clusters["greet1"]).Get(&corev1.ConfigMap{}, "greetings", "greeting")
		acctest.OutsiderOf(t, clusters["greet3"]).Get(&corev1.ConfigMap{}, "default", "greeting")
	})
	t.Run("repaired", func(t *testing.T) {
		acctest.OutsiderOf(t, clusters["greet2"]).Apply(namespaceCalled("greetings"))
		if said, ok := apply("Bye", "1m", "2m"); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
		for _, cluster := range clusters {
			acctest.OutsiderOf(t, cluster).Get(&corev1.ConfigMap{}, "greetings", "greeting")
		}
	})
	t.Run("removed with its job", func(t *testing.T) {
		// The pods of the job wait at a gate. The timeout of the rollout is that of the
		// removal, too.
		replace(t, main, `restartPolicy = "Never"`, "restartPolicy = \"Never\"\nschedulingGates = [{ name = \"example.com/wait\" }]")
		if said, ok := apply("Bye", "1m", "10s"); !ok {
			t.Fatal(acctest.Excerpt(said))
		}
		said, ok := w.Run(append([]string{"destroy", "-auto-approve"}, with...)...)
		if ok {
			t.Fatal("the add-on is gone, though its jobs have not run: " + acctest.Excerpt(said))
		}
		acctest.Says(t, said, `Not removed yet: add-on "greeter"`, "the add-on was still in 3 clusters", "greet2:", "Job default/farewell has to complete before the add-on goes")
		for name, cluster := range clusters {
			acctest.OutsiderOf(t, cluster).Get(&corev1.ConfigMap{}, "greetings", "greeting")
			openGates(t, name, cluster)
		}
		w.MustRun(append([]string{"destroy", "-auto-approve"}, with...)...)
		for name, cluster := range clusters {
			if acctest.OutsiderOf(t, cluster).Exists(&corev1.ConfigMap{}, "greetings", "greeting") {
				t.Errorf("the add-on's objects are still in %s", name)
			}
		}
	})
}

// openGates lets the pods of the job run that waits in a cluster.
func openGates(t *testing.T, name string, cluster *testhub.Process) {
	t.Helper()
	inside, pods := acctest.OutsiderOf(t, cluster), &corev1.PodList{}
	ctx, cancel := inside.Context()
	defer cancel()
	if err := inside.Client.List(ctx, pods, kube.ListOptions{Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, pod := range pods.Items {
		if len(pod.Spec.SchedulingGates) > 0 {
			inside.Patch(&corev1.Pod{}, "default", pod.Name, `{"spec":{"schedulingGates":null}}`)
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d jobs wait in %s", opened, name)
	}
}

func namespaceCalled(name string) *corev1.Namespace {
	namespace := &corev1.Namespace{}
	namespace.Name = name
	return namespace
}

// followOrder follows an add-on's configuration, and returns what tells in which order
// the clusters were given another one. It fails the test when a cluster is given it
// before the one before has it.
func followOrder(t *testing.T, addOn string) (order func() []string) {
	t.Helper()
	someone := acctest.Someone(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var given []string
	before := map[string]string{}
	running.Go(func() {
		list, item := &addonv1alpha1.ManagedClusterAddOnList{}, &addonv1alpha1.ManagedClusterAddOn{}
		_ = someone.Client.WaitObjects(ctx, list, item, kube.ListOptions{FieldSelector: "metadata.name=" + addOn}, func(objects map[string]kube.Object) (bool, error) {
			busy := 0
			for _, o := range objects {
				x, _ := o.(*addonv1alpha1.ManagedClusterAddOn)
				wanted, applied := configsOf(x)
				if was, seen := before[x.Namespace]; seen && was != wanted && !slices.Contains(given, x.Namespace) {
					given = append(given, x.Namespace)
				} else if !seen {
					before[x.Namespace] = wanted
				}
				if wanted != applied {
					busy++
				}
			}
			if busy > 1 {
				t.Errorf("%d clusters are changed at the same time", busy)
			}
			return false, nil
		})
	})
	return func() []string {
		stop()
		running.Wait()
		return given
	}
}

// configsOf are the configurations that an add-on is to have, and has, in a cluster.
func configsOf(x *addonv1alpha1.ManagedClusterAddOn) (wanted, applied string) {
	for _, r := range x.Status.ConfigReferences {
		if r.DesiredConfig != nil {
			wanted += r.DesiredConfig.Name + "=" + r.DesiredConfig.SpecHash + " "
		}
		if r.LastAppliedConfig != nil {
			applied += r.LastAppliedConfig.Name + "=" + r.LastAppliedConfig.SpecHash + " "
		}
	}
	return wanted, applied
}
