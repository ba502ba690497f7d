// Package install puts into a hub what clients expect to find there: the
// well-known namespaces, roles and config maps, and the record of the keys that
// the hub's store was made with.
package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
)

// WellKnown creates what agents and clusteradm look for on every hub: the
// namespaces, the bootstrap service account with its role, and the config maps
// in kube-public that say where the hub is and what it supports.
//
// place is where agents reach the hub, keys what they verify it by. enabled are
// the names in hubinfo of what the hub supports beyond every hub of muster.
func WellKnown(ctx context.Context, c client.Client, place Place, keys Keys, enabled ...string) error {
	a := apply.Applier{Client: c, Live: c}
	bundle := slices.Concat(keys.CAData, place.ExternalCAs)
	used, err := publishedURL(ctx, c)
	if err != nil {
		return err
	}
	clusterInfo, err := clusterInfo(place.URL, bundle)
	if err != nil {
		return err
	}
	namespaces := []client.Object{}
	names := []string{cluster.Namespace, cluster.HubNamespace, metav1.NamespacePublic, metav1.NamespaceSystem}
	if slices.Contains(enabled, hubinfo.ClusterImport) {
		names = append(names, muster.ImportNamespace)
	}
	for _, name := range names {
		namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err := applyAll(ctx, a, namespaces); err != nil {
		return fmt.Errorf("make the well-known namespaces: %w", err)
	}
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("read the hub's UID: %w", err)
	}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.BootstrapServiceAccount}},
		bootstrapRole(), clusterInfo, features(access.HubID(string(system.UID)), enabled), keys.configMap(),
	}
	objects = append(objects, bootstrapBindings()...)
	objects = append(objects, bootstrapAccess()...)
	objects = append(objects, publicAccess()...)
	objects = append(objects, AddOnRoles()...)
	if slices.Contains(enabled, hubinfo.UserAccess) {
		objects = append(objects, accessRoles()...)
	}
	if slices.Contains(enabled, hubinfo.ClusterImport) {
		objects = append(objects, importRoles()...)
	}
	if err := applyAll(ctx, a, objects); err != nil {
		return fmt.Errorf("make the well-known objects: %w", err)
	}
	return publishEndpoints(ctx, c, place, bundle, used)
}

// applyAll applies objects side by side.
func applyAll(ctx context.Context, a apply.Applier, objects []client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range objects {
		group.Go(func() error { return a.Apply(ctx, o) })
	}
	return group.Wait()
}

// bootstrapRole is what an unbound bootstrap identity may do: announce a
// cluster and ask for a certificate, but neither accept nor approve.
func bootstrapRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: cluster.BootstrapRole},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
			{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "create", "list", "watch"}},
			{APIGroups: []string{cluster.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
			{APIGroups: []string{muster.GroupName}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create", "get"}},
		},
	}
}

// caBundle is the config map in which upstream hubs publish the authority of
// their gRPC server.
const caBundle = "ca-bundle-configmap"

// bootstrapUsers are those that may register any cluster.
func bootstrapUsers() []rbacv1.Subject {
	return []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: cluster.Namespace, Name: cluster.BootstrapServiceAccount},
		{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.BootstrapGroup},
	}
}

// bootstrapAccess lets bootstrap users read public config maps, and the one
// that shows clusteradm whether a hub has gRPC: clusteradm needs NotFound for
// an absent one, not Forbidden. Upstream's role lets them read the config maps
// of all namespaces.
func bootstrapAccess() (objects []client.Object) {
	for namespace, names := range map[string][]string{metav1.NamespacePublic: nil, cluster.HubNamespace: {caBundle}} {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: cluster.BootstrapRole}
		objects = append(objects, &rbacv1.Role{
			ObjectMeta: meta,
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: []string{"get"}}},
		})
		objects = append(objects, &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   bootstrapUsers(),
		})
	}
	return objects
}

func bootstrapBindings() []client.Object {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.BootstrapRole}
	return []client.Object{
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.BootstrapRole + ":agent-registration"},
			RoleRef:    role,
			Subjects:   bootstrapUsers()[:1],
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.BootstrapRole + ":managedcluster"},
			RoleRef:    role,
			Subjects:   bootstrapUsers()[1:],
		},
	}
}

// publicAccess lets every client that can reach the hub read where it is and
// how to verify it, as on kubeadm's clusters.
func publicAccess() []client.Object {
	const name = "muster:public-info"
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{hubinfo.ClusterInfo, hubinfo.Name, hubinfo.EndpointsName}, Verbs: []string{"get"},
		}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:unauthenticated"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"},
		},
	}
	return append([]client.Object{role, binding}, followEndpoints()...)
}

// followEndpoints lets agents follow where the hub is.
func followEndpoints() []client.Object {
	const name = "muster:hub-endpoints"
	meta := metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: name}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{hubinfo.EndpointsName}, Verbs: []string{"get", "list", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: cluster.ManagedClustersGroup}},
		},
	}
}

func clusterInfo(url string, caData []byte) (*corev1.ConfigMap, error) {
	// One cluster without a name, no user, no context: the form that kubeadm
	// publishes and that clients of cluster-info expect.
	data, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: url, CertificateAuthorityData: caData},
	}})
	if err != nil {
		return nil, fmt.Errorf("write the cluster-info: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo},
		Data:       map[string]string{"kubeconfig": string(data)},
	}, nil
}

func features(hubID string, enabled []string) *corev1.ConfigMap {
	all := append([]string{
		hubinfo.BoundBootstrapApproval, hubinfo.Rejoin, hubinfo.TokenScope, hubinfo.EndpointPropagation, hubinfo.FleetSnapshot,
	}, enabled...)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.Name},
		Data:       map[string]string{hubinfo.FeaturesKey: strings.Join(all, ","), hubinfo.VersionKey: version.Version(), hubinfo.HubIDKey: hubID},
	}
}
