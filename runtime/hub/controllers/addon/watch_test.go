package addon_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/configuration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/deploy"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// run runs the controllers of add-ons as a hub does, apart from those of add-ons from
// templates.
func (f *fleet) run() {
	f.Helper()
	f.runWith(func(m manager.Manager) []controllerOf {
		deploying := deploy.NewController(m.GetClient(), m.GetCache(), m.GetAPIReader(),
			m.GetEventRecorder("test"), f.clock, deploy.Options{})
		return []controllerOf{addoncontrollers.NewStages(m.GetClient(), addoncontrollers.NewOwners(m.GetClient()), deploying)}
	})
}

type controllerOf interface{ Register(manager.Manager) error }

// runWith runs further controllers, too.
func (f *fleet) runWith(more func(m manager.Manager) []controllerOf) {
	f.Helper()
	env.StartManager(f, func(m manager.Manager) error {
		if err := addons.Index(m.GetFieldIndexer()); err != nil {
			return err
		}
		c := m.GetClient()
		all := []controllerOf{
			addoncontrollers.NewInstaller(c, selection.BoundSets, nil, nil),
			addoncontrollers.NewAnnotations(c, m.GetAPIReader()),
			configuration.NewController(c, m.GetCache(), m.GetEventRecorder("test"), f.clock, selection.BoundSets),
		}
		for _, x := range append(all, more(m)...) {
			if err := x.Register(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// until waits until a cluster's add-on is as it should be.
func (f *fleet) until(cluster, what string, check func(a *addonv1alpha1.ManagedClusterAddOn) bool) {
	f.Helper()
	testkit.Eventually(f, func() error {
		a := &addonv1alpha1.ManagedClusterAddOn{}
		if err := f.Get(context.Background(), client.ObjectKey{Namespace: f.full(cluster), Name: f.name}, a); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if !check(a) {
			return fmt.Errorf("%s: the add-on is %+v", what, a.Status)
		}
		return nil
	})
}

// Each change is seen by itself, without a look at everything now and then.
func TestTheControllersSeeWhatChanges(t *testing.T) {
	f := newFleet(t, "a")
	f.run()
	f.place("p", "0:a,b")
	placement := f.strategy("p", "")
	placement.Configs = f.deploymentConfigs("one")
	f.fromTemplate(placement)
	hash := func(want string) func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return func(a *addonv1alpha1.ManagedClusterAddOn) bool {
			return len(a.Status.ConfigReferences) == 2 && a.Status.ConfigReferences[0].DesiredConfig.SpecHash == want
		}
	}
	f.until("a", "installed by a placement", hash(""))
	config := f.deploymentConfig("one", "test")
	f.until("a", "a configuration appears", hash(hashOfTest))
	f.Merge(config, `{"spec":{"customizedVariables":[{"name":"test1","value":"test1"}]}}`)
	f.until("a", "a configuration changes", hash(hashOfTest1))

	mc := f.member("b", map[string]string{cluster.ClusterSetLabel: f.name}, nil)
	f.until("b", "a cluster that decisions name appears", hash(hashOfTest1))
	f.Merge(mc, `{"metadata":{"annotations":{"addon.open-cluster-management.io/x":"1"}}}`)
	f.until("b", "a cluster is annotated", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return a.Annotations["addon.open-cluster-management.io/x"] == "1"
	})

	f.template(f.name)
	f.until("b", "the template appears", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return a.Status.ConfigReferences[1].DesiredConfig.SpecHash != ""
	})
	f.deploy("b", true)
	f.until("b", "its works are done", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return text(a.Status.Conditions, "Progressing") == completed && a.Status.ConfigReferences[0].LastAppliedConfig != nil
	})
	f.deploy("b", false)
	f.until("b", "its works fail", func(a *addonv1alpha1.ManagedClusterAddOn) bool {
		return text(a.Status.Conditions, "Progressing") == notReady
	})

	f.deploymentConfig("own", "test")
	b := f.in("b")
	f.Merge(b, `{"spec":{"configs":[{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs","namespace":%q,"name":"own"}]}}`, f.name)
	f.until("b", "a cluster gets a configuration of its own", hash(hashOfTest))

	before := f.in("a").UID
	f.Must(f.Delete(context.Background(), f.in("a")))
	f.until("a", "an add-on that was deleted", func(a *addonv1alpha1.ManagedClusterAddOn) bool { return a.UID != before })
	f.place("p", "0:a")
	testkit.Eventually(t, func() error {
		if got := f.installed(); got != "a" {
			return fmt.Errorf("the add-on is in %q", got)
		}
		return nil
	})
}

// A hosted add-on is done when its works in both places are.
func TestAHostedAddOn(t *testing.T) {
	f := newFleet(t, "a b host")
	f.define("")
	for _, name := range []string{"a", "b"} {
		a := f.manual(name, "")
		f.Merge(a, `{"metadata":{"annotations":{"addon.open-cluster-management.io/hosting-cluster-name":%q}}}`, f.full("host"))
		f.deploy(name, true)
	}
	f.pass()
	f.mustCondition("a", "Progressing", "False/WaitingForHostingManifestApplied/Waiting for ManagedClusterAddOn HostingManifestApplied condition")
	f.manual("host", "")
	f.deploy("host", true) // its own, which is nobody else's
	for _, name := range []string{"a", "b"} {
		a := f.in(name)
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: "HostingManifestApplied", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(noon)})
		f.Must(f.Status().Update(context.Background(), a))
	}
	f.host("a", false)
	f.pass()
	f.mustCondition("a", "Progressing", notReady)
	f.mustCondition("b", "Progressing", completed)
	f.mustCondition("host", "Progressing", completed)
	f.host("a", true)
	f.pass()
	f.mustCondition("a", "Progressing", completed)
}
