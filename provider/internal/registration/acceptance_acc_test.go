package registration_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestAccClusterAcceptance(t *testing.T) {
	accepts := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			object := &clusterv1.ManagedCluster{}
			acctest.Someone(t).Get(object, "", "ca-basic")
			if object.Spec.AcceptsClient() != want {
				return fmt.Errorf("hubAcceptsClient is %v", object.Spec.AcceptsClient())
			}
			return nil
		}
	}
	acctest.Run(t,
		resource.TestStep{
			Config: acctest.AcceptanceConfig("ca-basic", ""),
			Check: resource.ComposeTestCheckFunc(accepts(true), func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "ca-basic")
				if !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted) || !acctest.Someone(t).Exists(&corev1.Namespace{}, "", "ca-basic") {
					return fmt.Errorf("it did not wait until the hub had acted")
				}
				return nil
			}),
		},
		resource.TestStep{
			ResourceName: acctest.AcceptanceAddress, ImportState: true, ImportStateId: "ca-basic",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "managed_cluster",
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&clusterv1.ManagedCluster{}, "", "ca-basic", `{"spec":{"hubAcceptsClient":false}}`)
			},
			Config: acctest.AcceptanceConfig("ca-basic", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.AcceptanceAddress, plancheck.ResourceActionUpdate),
			}},
			Check: accepts(true),
		},
		// Applying the cluster's record must not withdraw the acceptance.
		resource.TestStep{
			Config: `resource "muster_managed_cluster" "test" {
  name   = "ca-basic"
  labels = { changed = "yes" }
}
resource "muster_cluster_acceptance" "test" {
  managed_cluster = muster_managed_cluster.test.name
}`,
			Check: accepts(true),
		},
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-basic", "accepted = false"), Check: accepts(false)},
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-basic", ""), Check: accepts(true)},
		resource.TestStep{Config: acctest.ClusterConfig("ca-basic", ""), Check: accepts(false)},
	)
}

// A denial takes the rights of the agent, an acceptance gives them back, no matter who
// denied it.
func TestAccClusterAcceptanceDeniesAndAcceptsAgain(t *testing.T) {
	rights := func(want bool) resource.TestCheckFunc {
		return func(*terraform.State) error {
			o := acctest.Someone(t)
			object := &clusterv1.ManagedCluster{}
			o.Get(object, "", "ca-again")
			if got := meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionHubAccepted); got != want {
				return fmt.Errorf("the condition of acceptance is %v, want %v", got, want)
			}
			for _, binding := range []string{cluster.RegistrationBindingName("ca-again"), cluster.WorkBindingName("ca-again")} {
				if got := o.Exists(&rbacv1.RoleBinding{}, "ca-again", binding); got != want {
					return fmt.Errorf("the binding %s is there: %v, want %v", binding, got, want)
				}
			}
			return nil
		}
	}
	work := &workv1.ManifestWork{}
	work.Namespace, work.Name, work.Finalizers = "ca-again", "held", []string{"example.org/held"}
	work.Spec.Workload.Manifests = []workv1.Manifest{{}}
	work.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)
	t.Cleanup(func() {
		ctx, cancel := acctest.Someone(t).Context()
		defer cancel()
		_ = acctest.Someone(t).Client.MergePatch(ctx, work, acctest.OutsiderManager, json.RawMessage(`{"metadata":{"finalizers":null}}`))
	})
	acctest.Run(t,
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-again", ""), Check: rights(true)},
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-again", "accepted = false"), Check: rights(false)},
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-again", "accepted = true"), Check: rights(true)},
		resource.TestStep{
			PreConfig: func() {
				o := acctest.Someone(t)
				o.Patch(&clusterv1.ManagedCluster{}, "", "ca-again", `{"spec":{"hubAcceptsClient":false}}`)
				object := &clusterv1.ManagedCluster{}
				o.Wait(object, "", "ca-again", func() bool {
					return meta.IsStatusConditionFalse(object.Status.Conditions, cluster.ConditionHubAccepted)
				})
			},
			Config: acctest.AcceptanceConfig("ca-again", ""),
			Check:  rights(true),
		},
		// With works left, the denial is done as far as it goes.
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Apply(work) },
			Config:    acctest.AcceptanceConfig("ca-again", "accepted = false\n  timeouts { update = \"2s\" }"),
			Check: func(*terraform.State) error {
				object := &clusterv1.ManagedCluster{}
				acctest.Someone(t).Get(object, "", "ca-again")
				if object.Spec.AcceptsClient() || acctest.Someone(t).Exists(&rbacv1.RoleBinding{}, "ca-again", cluster.RegistrationBindingName("ca-again")) {
					return fmt.Errorf("the cluster has its rights")
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(work, "ca-again", "held", `{"metadata":{"finalizers":null}}`)
				acctest.Someone(t).Remove(work, "ca-again", "held")
			},
			Config: acctest.AcceptanceConfig("ca-again", ""),
			Check:  rights(true),
		},
	)
}

func TestAccClusterAcceptanceOfAnUnknownCluster(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config: `resource "muster_cluster_acceptance" "test" {
  managed_cluster = "nobody"
  timeouts { create = "2s" }
}`,
		ExpectError: regexp.MustCompile(`(?s)There is no managed cluster "nobody".*kubectl\s+get\s+managedclusters`),
	})
	if acctest.Someone(t).Exists(&clusterv1.ManagedCluster{}, "", "nobody") {
		t.Error("accepting has made a cluster")
	}
}

// Two states that decide about one cluster: the second is warned, and what one destroys
// does not deny the cluster under the other.
func TestAccClusterAcceptanceHasOneOwner(t *testing.T) {
	const n = "ca-owned"
	w, other := acctest.NewWorkspace(t), acctest.NewWorkspace(t)
	o := acctest.Someone(t)
	accepts := func() bool {
		object := &clusterv1.ManagedCluster{}
		o.Get(object, "", n)
		return object.Spec.AcceptsClient()
	}
	theirs := func(body string) string {
		return fmt.Sprintf("resource \"muster_cluster_acceptance\" \"test\" {\n  managed_cluster = %q\n%s\n}\n", n, body)
	}
	if said, ok := w.Apply(acctest.AcceptanceConfig(n, "")); !ok {
		t.Fatal(said)
	}
	said, ok := other.Apply(theirs("accepted = false"))
	if ok || !accepts() {
		t.Errorf("another state denied the cluster: %s", said)
	}
	acctest.Says(t, said, "Error: Taken over by another owner: the acceptance of managed cluster", "adopt = true")
	if said, ok = other.Apply(theirs("")); !ok {
		t.Fatal(said)
	}
	acctest.Says(t, said, "Warning: An acceptance was taken over from another Terraform resource")
	// The first one is warned, and its destruction denies nothing.
	said = w.Plan(acctest.AcceptanceConfig(n, ""))
	acctest.Says(t, said, "Warning: Taken over by another owner: the acceptance of managed cluster", "No changes")
	if said, ok = w.Apply(acctest.ClusterConfig(n, "")); !ok || !accepts() {
		t.Errorf("what is another's was denied: %s", said)
	}
	acctest.Says(t, said, "Warning: Not denied")
	if said, ok = other.Apply(theirs("force_conflicts = false")); !ok {
		t.Fatal(said)
	}
	// Without force, what a person has decided stays.
	o.Patch(&clusterv1.ManagedCluster{}, "", n, `{"spec":{"hubAcceptsClient":false}}`)
	acctest.Says(t, other.Plan(theirs("force_conflicts = false")), "Error: Fields of another owner", `field .spec.hubAcceptsClient is owned by "kubectl-edit"`)
	if said, ok = other.Apply(theirs("")); !ok || !accepts() {
		t.Error(said)
	}
	for _, workspace := range []*acctest.Workspace{other, w} {
		if said, ok = workspace.Destroy(); !ok {
			t.Error(said)
		}
	}
}

// Who may not accept a cluster is refused in the plan.
func TestAccClusterAcceptanceIsRefusedInThePlan(t *testing.T) {
	o := acctest.Someone(t)
	record := &clusterv1.ManagedCluster{}
	record.Name = "ca-refused"
	o.Apply(record)
	t.Cleanup(func() { o.Remove(&clusterv1.ManagedCluster{}, "", "ca-refused") })
	writer := o.Identity("acceptance-writer", rbacv1.PolicyRule{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"*"}})
	said := acctest.NewWorkspace(t).Plan(writer + "resource \"muster_cluster_acceptance\" \"test\" {\n  managed_cluster = \"ca-refused\"\n}\n")
	acctest.Says(t, said, "Error: The hub refuses the acceptance of managed cluster", cluster.RefusedAcceptance, "managedclusters/accept")
}

func TestAccClusterAcceptanceFollowsADeletedCluster(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{Config: acctest.AcceptanceConfig("ca-gone", "")},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1.ManagedCluster{}, "", "ca-gone") },
			Config:    acctest.AcceptanceConfig("ca-gone", ""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.AcceptanceAddress, plancheck.ResourceActionCreate),
			}},
		},
	)
}

// Where an agent comes with a token for any cluster, its certificate request
// waits for approval.
func TestAccClusterAcceptanceApprovesTheRequest(t *testing.T) {
	token := "resource \"muster_bootstrap_token\" \"any\" {}\n"
	acctest.Run(t,
		resource.TestStep{Config: acctest.ClusterConfig("ca-csr", "") + token},
		resource.TestStep{
			Config:      acctest.AcceptanceConfig("ca-csr", "approve_csr = true\n  timeouts { create = \"3s\" }") + token,
			ExpectError: regexp.MustCompile(`(?s)No certificate request of managed cluster "ca-csr".*approve_csr = false`),
		},
		resource.TestStep{
			PreConfig: func() {
				requestCertificate(t, "ca-csr")
			},
			Config: acctest.AcceptanceConfig("ca-csr", "approve_csr = true") + token,
			Check: func(*terraform.State) error {
				object := &certificatesv1.CertificateSigningRequest{}
				acctest.Someone(t).Get(object, "", "ca-csr-request")
				if !slices.ContainsFunc(object.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
					return c.Type == certificatesv1.CertificateApproved
				}) {
					return fmt.Errorf("the request is not approved: %v", object.Status.Conditions)
				}
				return nil
			},
		},
	)
}

// requestCertificate plays an agent with the token that is in the fleet.
func requestCertificate(t *testing.T, name string) {
	t.Helper()
	o := acctest.Someone(t)
	secrets := &corev1.SecretList{}
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.List(ctx, secrets, kube.ListOptions{Namespace: "kube-system", LabelSelector: "app=cluster-manager"}); err != nil {
		t.Fatal(err)
	}
	for i := range secrets.Items {
		data := secrets.Items[i].Data
		if string(data["auth-extra-groups"]) != cluster.BootstrapGroup {
			continue
		}
		if err := o.WithToken(string(data["token-id"])+"."+string(data["token-secret"])).Create(ctx, registration.NewRequest(t, name)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("there is no token for any cluster")
}
