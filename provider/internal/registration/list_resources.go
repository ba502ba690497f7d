package registration

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// NewAcceptanceListResource lists the clusters that the hub has accepted.
func NewAcceptanceListResource() list.ListResource {
	return crud.NewList(crud.List[*clusterv1.ManagedCluster]{
		Type: "cluster_acceptance", Plural: "acceptances of managed clusters", Objects: &clusterv1.ManagedClusterList{},
		About: "Clusters that are not accepted are not listed: whether to accept them is still to be decided.",
		Adopt: func(object *clusterv1.ManagedCluster) (crud.Model, error) { return importAcceptance(object), nil },
		Is:    func(object *clusterv1.ManagedCluster) bool { return object.Spec.AcceptsClient() },
		Managed: func(object *clusterv1.ManagedCluster) bool {
			return !crud.FieldsOf(object, hub.AcceptanceManager).None()
		},
		Sets:     crud.SetsOfCluster,
		Describe: crud.DescribeCluster,
	})
}

// NewRegistrationListResource lists the clusters that have registered.
func NewRegistrationListResource() list.ListResource {
	return crud.NewList(crud.List[*clusterv1.ManagedCluster]{
		Type: "cluster_registration", Plural: "registrations of managed clusters", Objects: &clusterv1.ManagedClusterList{},
		About: "Listed are the clusters that have joined and are available. The resource leaves nothing on the hub, so that the list can't tell which of them are in Terraform already.",
		Adopt: func(object *clusterv1.ManagedCluster) (crud.Model, error) { return importRegistration(object), nil },
		Is:    func(object *clusterv1.ManagedCluster) bool { return len(unregistered(object)) == 0 },
		Managed: func(*clusterv1.ManagedCluster) bool {
			return false
		},
		Sets:     crud.SetsOfCluster,
		Describe: crud.DescribeCluster,
	})
}

// NewTokenListResource lists bootstrap tokens.
func NewTokenListResource() list.ListResource {
	return crud.NewList(crud.List[*corev1.Secret]{
		Type: "bootstrap_token", Plural: "bootstrap tokens", Objects: &corev1.SecretList{},
		About: "Listed are the tokens with which agents register and that have not expired, and of each only what it may be used for: the token itself is left out.",
		Within: kube.ListOptions{
			Namespace: metav1.NamespaceSystem, FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken),
		},
		Adopt: func(secret *corev1.Secret) (crud.Model, error) {
			m := importToken(secret)
			m.Token = types.StringNull()
			return m, nil
		},
		Is: func(secret *corev1.Secret) bool {
			token := tokenOf(secret)
			groups := strings.Split(token.Groups, ",")
			registers := slices.Contains(groups, cluster.BootstrapGroup) || len(cluster.BoundClusters(groups)) > 0
			return registers && secret.Name == tokenSecretName(token.ID) && (token.Expires.IsZero() || token.Expires.After(time.Now()))
		},
		Describe: func(secret *corev1.Secret) string {
			token := tokenOf(secret)
			if len(token.Clusters) > 0 {
				return "for " + strings.Join(token.Clusters, ", ")
			}
			return token.Description
		},
	})
}
