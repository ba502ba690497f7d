package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	useraccess "github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// cloudNames are the logical clouds that there may be. Their namespaces in the clusters have
// the same names.
var cloudNames = []string{"cloud-0", "cloud-1"}

// writeCloud gives users a namespace in the clusters of a group, with keys that the hub makes.
func (l *lab) writeCloud() {
	name, group, users := l.pick(cloudNames), l.pick(groups), []string{"ann", "bob"}
	users = users[:1+l.rand.IntN(len(users))]
	l.written++
	value := strconv.Itoa(l.written)
	cloud := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: name}}
	l.put("cloud "+name, describeCloud(group, users, value), cloud, func() {
		cloud.Spec.Placements = []v1alpha1.PlacementReference{{Name: group}}
		cloud.Spec.Namespace = v1alpha1.CloudNamespace{
			Name: name, Labels: map[string]string{labLabel: value}, OnDelete: v1alpha1.OnDeleteDelete,
		}
		cloud.Spec.Grants = []v1alpha1.Grant{{Users: users, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"},
		}}}}
		cloud.Spec.Access.KeyPolicy = v1alpha1.KeyHubMade
		cloud.Spec.Access.Modes = []v1alpha1.AccessMode{v1alpha1.AccessCertificate}
	})
}

func describeCloud(group string, users []string, value string) string {
	return group + ": " + strings.Join(users, "+") + " " + value
}

func (l *lab) readClouds(clouds []v1alpha1.LogicalCloud, read map[string]string) {
	for _, c := range clouds {
		value := c.Spec.Namespace.Labels[labLabel]
		read["cloud "+c.Name] = describeCloud(c.Spec.Placements[0].Name, c.Spec.Grants[0].Users, value)
	}
}

// letIn checks that users have access in the clusters of their clouds and in no others: each
// cluster has the namespaces of the clouds that it belongs to, bound there are the keys that
// are issued, and each user has one in each of these clusters.
func (l *lab) letIn(ctx context.Context, clouds []v1alpha1.LogicalCloud, group map[string]string) error {
	requests := &v1alpha1.AccessRequestList{}
	if err := l.admin.List(ctx, requests, client.InNamespace(labNamespace)); err != nil {
		return err
	}
	keys := map[string]map[string]string{} // by cluster and cloud, and user
	for _, r := range requests.Items {
		if r.HasEnded() || !meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued) {
			return fmt.Errorf("the access of %s to %s in %s is not issued: %+v",
				r.Spec.User, r.Spec.LogicalCloud, r.Spec.ManagedCluster, r.Status.Conditions)
		}
		where := r.Spec.ManagedCluster + "/" + r.Spec.LogicalCloud
		if keys[where] == nil {
			keys[where] = map[string]string{}
		}
		if keys[where][r.Spec.User] != "" {
			return fmt.Errorf("%s has access to %s twice", r.Spec.User, where)
		}
		keys[where][r.Spec.User] = r.Status.KeyHash
	}
	for _, m := range l.members {
		for _, name := range cloudNames {
			label, users := "", []string(nil)
			for _, c := range clouds {
				if c.Name == name && group[m.name] == c.Spec.Placements[0].Name {
					label, users = c.Spec.Namespace.Labels[labLabel], c.Spec.Grants[0].Users
				}
			}
			has := keys[m.name+"/"+name]
			if got := slices.Sorted(maps.Keys(has)); !slices.Equal(got, users) {
				return fmt.Errorf("in %s of %s %q have access, want %q", name, m.name, got, users)
			}
			if err := m.lets(ctx, name, label, slices.Sorted(maps.Values(has))); err != nil {
				return fmt.Errorf("%s in %s: %w", name, m.name, err)
			}
		}
	}
	return nil
}

// lets checks a cloud's namespace in a cluster, by its label, "" for none, and the keys that are
// bound there.
func (m *member) lets(ctx context.Context, namespace, label string, keys []string) error {
	ns, bindings := &corev1.Namespace{}, &rbacv1.RoleBindingList{}
	err := errors.Join(
		client.IgnoreNotFound(m.client.Get(ctx, client.ObjectKey{Name: namespace}, ns)),
		m.client.List(ctx, bindings, client.InNamespace(namespace)),
	)
	if err != nil {
		return err
	}
	if got := ns.Labels[labLabel]; got != label {
		return fmt.Errorf("the namespace is labelled %q, want %q", got, label)
	}
	var want, bound []string
	for _, key := range keys {
		want = append(want, useraccess.KeyGroup(key))
	}
	for _, b := range bindings.Items {
		for _, s := range b.Subjects {
			bound = append(bound, s.Name)
		}
	}
	if slices.Sort(bound); !slices.Equal(bound, want) {
		return fmt.Errorf("bound are %q, want %q", bound, want)
	}
	return nil
}
