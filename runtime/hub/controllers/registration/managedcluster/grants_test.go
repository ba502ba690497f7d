package managedcluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// short writes rules as "verbs resource.group[name]".
func short(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%s %s.%s%v", strings.Join(r.Verbs, ","), strings.Join(r.Resources, ","), strings.Join(r.APIGroups, ","), r.ResourceNames))
	}
	return out
}

func TestRules(t *testing.T) {
	for name, x := range map[string]struct {
		accepted bool
		want     []string
	}{
		"accepted": {true, []string{
			"create,get,list,watch certificatesigningrequests.certificates.k8s.io[]",
			"renew managedclusters/clientcertificates.register.open-cluster-management.io[]",
			"get,list,update,watch managedclusters.cluster.open-cluster-management.io[paris]",
			"patch,update managedclusters/status.cluster.open-cluster-management.io[paris]",
		}},
		"denied": {false, []string{"get,list,watch managedclusters.cluster.open-cluster-management.io[paris]"}},
	} {
		if got := short(Rules("paris", x.accepted)); !slices.Equal(got, x.want) {
			t.Errorf("%s: the rules are %q, want %q", name, got, x.want)
		}
	}
}

// Every object carries the hub's labels and the cluster's name, which no label
// of the hub's configuration replaces.
func TestLabelsOfGrants(t *testing.T) {
	extra := map[string]string{"team": "red", cluster.NameLabel: "rome"}
	g := newGrants("paris", true, extra)
	for _, o := range []client.Object{g.namespace, g.clusterRole, g.clusterRoleBinding, g.registrationBinding, g.workBinding} {
		if l := o.GetLabels(); len(l) != 2 || l["team"] != "red" || l[cluster.NameLabel] != "paris" {
			t.Errorf("%T %s has the labels %v", o, o.GetName(), l)
		}
	}
	if len(extra) != 2 || extra[cluster.NameLabel] != "rome" {
		t.Errorf("the configured labels became %v", extra)
	}
}

func TestBindings(t *testing.T) {
	g := newGrants("paris", true, nil)
	agents := []string{cluster.Group("paris"), cluster.GroupWithoutPrefix("paris")}
	for _, x := range []struct {
		object     metav1.Object
		ref        rbacv1.RoleRef
		subjects   []rbacv1.Subject
		namespace  string
		role       string
		finalizers []string
	}{
		{g.clusterRoleBinding, g.clusterRoleBinding.RoleRef, g.clusterRoleBinding.Subjects, "", cluster.RoleName("paris"), nil},
		{g.registrationBinding, g.registrationBinding.RoleRef, g.registrationBinding.Subjects, "paris", cluster.RegistrationRole, nil},
		{g.workBinding, g.workBinding.RoleRef, g.workBinding.Subjects, "paris", cluster.WorkRole, []string{work.ManifestWorkFinalizer}},
	} {
		if x.object.GetNamespace() != x.namespace || x.ref != clusterRoleRef(x.role) || !slices.Equal(x.object.GetFinalizers(), x.finalizers) {
			t.Errorf("%s: in %q, to %+v, with the finalizers %q", x.object.GetName(), x.object.GetNamespace(), x.ref, x.object.GetFinalizers())
		}
		var groups []string
		for _, s := range x.subjects {
			if s.Kind != rbacv1.GroupKind || s.APIGroup != rbacv1.GroupName || s.Namespace != "" {
				t.Errorf("%s: the subject is %+v", x.object.GetName(), s)
			}
			groups = append(groups, s.Name)
		}
		if !slices.Equal(groups, agents) {
			t.Errorf("%s: the groups are %q, want %q", x.object.GetName(), groups, agents)
		}
	}
}
