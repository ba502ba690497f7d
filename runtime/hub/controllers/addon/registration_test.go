package addon_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

func TestAnAddOnFromATemplateIsRegisteredInOneWrite(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient())
	c := f.cluster()
	f.configure(c)
	if n := f.pass(c); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	if got := f.registered(c); got != registrationForHub {
		t.Errorf("registered is %q", got)
	}
	if got := f.addOn(c).Status.Namespace; got != "open-cluster-management-agent-addon" {
		t.Errorf("the namespace is %q", got)
	}
	f.mustBeApplied(c, isApplied)
}

// As upstream, there is no condition before: deploying waits for it.
func TestNothingIsRegisteredBeforeItsTime(t *testing.T) {
	for name, change := range map[string]func(f *registrationFleet, cluster string){
		"no owner": func(f *registrationFleet, cluster string) {
			a := f.addOn(cluster)
			a.OwnerReferences = nil
			f.Must(f.Update(context.Background(), a))
		},
		"the owner is another add-on's": func(f *registrationFleet, cluster string) {
			a := f.addOn(cluster)
			a.OwnerReferences[0].Name = "other"
			f.Must(f.Update(context.Background(), a))
		},
		"no references": func(f *registrationFleet, cluster string) {
			f.says(cluster, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.ConfigReferences = nil })
		},
		"no desired configuration": func(f *registrationFleet, cluster string) {
			f.says(cluster, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.ConfigReferences[0].DesiredConfig = nil })
		},
		"no hash": func(f *registrationFleet, cluster string) {
			f.says(cluster, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.ConfigReferences[0].DesiredConfig.SpecHash = "" })
		},
		"the template has changed, and it is not the cluster's turn": func(f *registrationFleet, cluster string) {
			f.says(cluster, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.ConfigReferences[0].DesiredConfig.SpecHash = "another" })
		},
		"a deployment configuration that does not exist": func(f *registrationFleet, cluster string) { f.configure(cluster, "none") },
		"no cluster": func(f *registrationFleet, cluster string) {
			f.Remove(clusterNamed(cluster))
		},
		"an add-on with a manager of its own": func(f *registrationFleet, cluster string) {
			definition := f.definition()
			definition.Spec.SupportedConfigs = nil
			f.Must(f.Update(context.Background(), definition))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistrationFleet(t)
			f.template(kubeClient())
			c := f.cluster()
			f.configure(c)
			change(f, c)
			if n := f.pass(c); n != 0 {
				t.Errorf("%d writes", n)
			}
			f.mustBeApplied(c, "")
		})
	}
}

// Registering goes on once what was missing is there.
func TestARegistrationFollowsTheRollout(t *testing.T) {
	f := newRegistrationFleet(t)
	template := f.template(kubeClient())
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	template.Spec.Registration = append(template.Spec.Registration, signer("example.org/s"))
	f.Must(f.Update(context.Background(), template))
	if n := f.pass(c); n != 0 || f.registered(c) != registrationForHub {
		t.Errorf("%d writes before the cluster's turn: %q", n, f.registered(c))
	}
	f.configure(c)
	f.pass(c)
	if got, want := f.registered(c), registrationForHub+" example.org/s=system:open-cluster-management:cluster:CLUSTER:addon:ADDON:agent:ADDON-agent"; got != want {
		t.Errorf("registered is %q", got)
	}
	template.Spec.Registration = nil
	f.Must(f.Update(context.Background(), template))
	f.configure(c)
	f.pass(c)
	if got := f.registered(c); got != "" {
		t.Errorf("registered is still %q", got)
	}
	f.mustBeApplied(c, isApplied)
}

// What is missing is said in the condition once there is one, and the registrations
// stay.
func TestAMissingConfigurationIsSaid(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient())
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	f.configure(c, "none")
	if n := f.pass(c); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	f.mustBeApplied(c, isApplied+" as before: the AddOnDeploymentConfig "+f.name+"/none does not exist")
	if got := f.registered(c); got != registrationForHub {
		t.Errorf("registered is %q", got)
	}
	f.configure(c)
	f.pass(c)
	f.mustBeApplied(c, isApplied)
}

func TestTheNamespaceIsThatOfTheDeploymentConfiguration(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient())
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"agentInstallNamespace": "elsewhere"}}}
	config.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AddOnDeploymentConfig"))
	config.SetNamespace(f.name)
	config.SetName("one")
	f.Make(config)
	c := f.cluster()
	f.configure(c, "one")
	f.pass(c)
	if got := f.addOn(c).Status.Namespace; got != "elsewhere" {
		t.Errorf("the namespace is %q", got)
	}
}

// The agent chooses its driver; the subject follows.
func TestTheStoredDriverWins(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient())
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	for _, x := range []struct{ driver, want string }{
		{"token", "kubernetes.io/kube-apiserver-client=system:serviceaccount:CLUSTER:ADDON-agent"}, {"csr", registrationForHub},
	} {
		f.says(c, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.KubeClientDriver = x.driver })
		f.pass(c)
		if a := f.addOn(c); f.registered(c) != x.want || a.Status.KubeClientDriver != x.driver {
			t.Errorf("driver %s: registered is %q, the driver %q", x.driver, f.registered(c), a.Status.KubeClientDriver)
		}
	}
}

func TestASignerOfKubernetesIsRefused(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient(), signer("kubernetes.io/kubelet-serving"))
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	if got := f.registered(c); got != registrationForHub {
		t.Errorf("registered is %q", got)
	}
	f.mustBeApplied(c, `False/SetPermissionFailed/Failed to set permission for hub agent: spec.registration[1].customSigner.signerName of the AddOnTemplate `+f.name+` is "kubernetes.io/kubelet-serving", which is a signer of Kubernetes' own`)
}

// What others say of an add-on stays.
func TestARegistrationLeavesOtherConditions(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient())
	c := f.cluster()
	f.configure(c)
	f.says(c, func(s *v1alpha1.ManagedClusterAddOnStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Test"})
	})
	f.pass(c)
	if s := f.addOn(c).Status; !meta.IsStatusConditionTrue(s.Conditions, "Available") || len(s.Conditions) != 2 {
		t.Errorf("the conditions are %+v", s.Conditions)
	}
}
