// Package install puts into a hub what clients expect to find there: the
// well-known namespaces, roles and config maps, and the record of the keys that
// the hub's store was made with.
package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
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
		bootstrapRole(), fleetViewRole(), clusterInfo, keys.configMap(),
		features(access.HubID(string(system.UID)), enabled),
	}
	objects = slices.Concat(objects, bootstrapBindings(), bootstrapAccess(), publicAccess(), AddOnRoles())
	if slices.Contains(enabled, hubinfo.UserAccess) {
		objects = append(objects, accessRoles()...)
	}
	if slices.Contains(enabled, hubinfo.WorkPreview) {
		objects = append(objects, clusterRole(WorkPreviewRole, "",
			rules(muster.GroupName, "workpreviews", "get,list,watch,create,delete")))
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
	return clusterRole(cluster.BootstrapRole, "",
		rules("certificates.k8s.io", "certificatesigningrequests", "create,get,list,watch"),
		rules(cluster.GroupName, "managedclusters", "get,create,list,watch"),
		rules(cluster.GroupName, "managedclustersets/join", "create"),
		rules(muster.GroupName, "clusterregistrations", "create,get"))
}

// caBundle is the config map in which upstream hubs publish the authority of
// their gRPC server.
const caBundle = "ca-bundle-configmap"

// bootstrapUsers are those that may register any cluster.
func bootstrapUsers() []rbacv1.Subject {
	return []rbacv1.Subject{account(cluster.Namespace, cluster.BootstrapServiceAccount), group(cluster.BootstrapGroup)}
}

// bootstrapAccess lets bootstrap users read public config maps, and the one
// that shows clusteradm whether a hub has gRPC: clusteradm needs NotFound for
// an absent one, not Forbidden. Upstream's role lets them read the config maps
// of all namespaces.
func bootstrapAccess() []client.Object {
	return append(boundRole(metav1.NamespacePublic, cluster.BootstrapRole, bootstrapUsers(), rules("", "configmaps", "get")),
		boundRole(cluster.HubNamespace, cluster.BootstrapRole, bootstrapUsers(), rules("", "configmaps", "get", caBundle))...)
}

func bootstrapBindings() []client.Object {
	return []client.Object{
		bound(cluster.BootstrapRole+":agent-registration", cluster.BootstrapRole, bootstrapUsers()[:1]...),
		bound(cluster.BootstrapRole+":managedcluster", cluster.BootstrapRole, bootstrapUsers()[1:]...),
	}
}

// publicAccess lets every client that can reach the hub read where it is and
// how to verify it, as on kubeadm's clusters. Agents may follow where it is.
func publicAccess() []client.Object {
	everybody := []rbacv1.Subject{group("system:unauthenticated"), group("system:authenticated")}
	agents := []rbacv1.Subject{group(cluster.ManagedClustersGroup)}
	return append(
		boundRole(metav1.NamespacePublic, "muster:public-info", everybody,
			rules("", "configmaps", "get", hubinfo.ClusterInfo, hubinfo.Name, hubinfo.EndpointsName)),
		boundRole(metav1.NamespacePublic, "muster:hub-endpoints", agents, rules("", "configmaps", "get,list,watch", hubinfo.EndpointsName))...)
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
		hubinfo.AddOnAnnouncement,
	}, enabled...)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.Name},
		Data:       map[string]string{hubinfo.FeaturesKey: strings.Join(all, ","), hubinfo.VersionKey: version.Version(), hubinfo.HubIDKey: hubID},
	}
}

// Place is where a hub is.
type Place struct {
	// URL is where agents and users reach it.
	URL string
	// ExternalURLs are those that agents are to use, the one to prefer first;
	// empty when each agent has its own.
	ExternalURLs []string
	// ExternalCAs are further authorities to verify the hub by, in PEM.
	ExternalCAs []byte
}

// publishEndpoints writes the config map by which agents learn that the hub has
// moved. used is the URL that the hub has published for new agents so far. What
// somebody else has written into it is overwritten.
func publishEndpoints(ctx context.Context, c client.Client, p Place, bundle []byte, used string) error {
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("read the UID of the hub: %w", err)
	}
	err := retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.EndpointsName}}
		err := c.Get(ctx, client.ObjectKeyFromObject(config), config)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		absent := err != nil
		before, err := hubinfo.ParseEndpoints(config.Data)
		if err != nil {
			// None, or one that agents take no notice of. Its number still counts.
			before = hubinfo.Endpoints{Generation: hubinfo.GenerationOf(config.Data)}
		}
		next := hubinfo.Next(before, p.ExternalURLs, bundle, used)
		next.HubUID = string(system.UID)
		config.Data = next.Data()
		if absent {
			return c.Create(ctx, config)
		}
		return c.Update(ctx, config)
	})
	if err != nil {
		return fmt.Errorf("publish where the hub is in the config map %s/%s: %w", metav1.NamespacePublic, hubinfo.EndpointsName, err)
	}
	return nil
}

// publishedURL is the URL in the cluster-info; empty when there is none.
func publishedURL(ctx context.Context, c client.Reader) (string, error) {
	info := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, info); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	url, _, err := bootstraptoken.Server(info.Data)
	if errors.Is(err, bootstraptoken.ErrNoServer) {
		return "", nil
	}
	return url, err
}

const (
	// keysName is the config map that records the keys that a store was made
	// with.
	keysName = "muster-hub-keys"
	// serviceAccountKey is its key for Keys.ServiceAccountKeyHash.
	serviceAccountKey = "serviceAccountKey"
)

// Keys identify the keys that the certificates and tokens in a hub's store
// depend on.
type Keys struct {
	// CAData has the certificate of the hub's authority, PEM-encoded, and those of
	// the authorities before that are still trusted.
	CAData []byte
	// ServiceAccountKeyHash identifies the key that signs service account
	// tokens.
	ServiceAccountKeyHash string
}

// SameKeys fails when a hub's store was made with other keys: the hub would
// refuse the certificates and tokens that were made with those.
func SameKeys(ctx context.Context, c client.Reader, keys Keys) error {
	info := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}, info)
	if err != nil {
		return client.IgnoreNotFound(err) // a new store
	}
	published, err := clientcmd.Load([]byte(info.Data["kubeconfig"]))
	if err != nil {
		return fmt.Errorf("read kube-public/cluster-info: %w", err)
	}
	for _, x := range published.Clusters {
		if !hubinfo.ShareCertificate(x.CertificateAuthorityData, keys.CAData) {
			return errors.New("the store was made by a hub with another certificate authority")
		}
	}
	known := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: cluster.HubNamespace, Name: keysName}, known)
	if err != nil {
		return client.IgnoreNotFound(err) // a store from before they were remembered
	}
	if hash := known.Data[serviceAccountKey]; hash != "" && hash != keys.ServiceAccountKeyHash {
		return errors.New("the store was made by a hub with another service-account key")
	}
	return nil
}

func (k Keys) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.HubNamespace, Name: keysName},
		Data:       map[string]string{serviceAccountKey: k.ServiceAccountKeyHash},
	}
}
