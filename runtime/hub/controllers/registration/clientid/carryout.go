package clientid

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// carryOut does what an answer says, before the agent learns of it. It can be
// repeated after each step.
func (c *Controller) carryOut(ctx context.Context, q question, a answer) error {
	if a.name == "" {
		return nil
	}
	if err := c.use(ctx, q, a); err != nil {
		return err
	}
	if a.create {
		return c.create(ctx, q, a)
	}
	return c.adopt(ctx, q, a)
}

// use notes in the token's Secret that it registers the cluster, and which cluster
// joins again by it. It is a conflict when the Secret has changed since the
// decision.
func (c *Controller) use(ctx context.Context, q question, a answer) error {
	if q.token == nil {
		return nil
	}
	secret, err := c.secretOf(ctx, q.token.id)
	if err != nil || secret == nil {
		return errors.Join(err, errGone(secret, q.token.id))
	}
	scope, err := cluster.ParseTokenScope(secret.Annotations)
	if err != nil {
		return err
	}
	news, ok := scope.Use(a.name)
	if !ok {
		return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it was used for other clusters meanwhile"))
	}
	joins := a.replaces && secret.Annotations[cluster.RejoinUIDAnnotation] == ""
	if !news && !joins {
		return nil
	}
	secret = secret.DeepCopy()
	written, err := patch.Object(ctx, c.client, secret, func() bool {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.TokenUsedByAnnotation, strings.Join(scope.UsedBy, ","))
		if joins {
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, cluster.RejoinUIDAnnotation, q.registration.Spec.ClusterUID)
		}
		return true
	})
	if err == nil && !written {
		return errGone(nil, q.token.id)
	}
	return err
}

// errGone has a registration judged again whose token is gone since the decision.
func errGone(secret *corev1.Secret, id string) error {
	if secret != nil {
		return nil
	}
	return apierrors.NewConflict(corev1.Resource("secrets"), cluster.TokenSecretPrefix+id, errors.New("it was deleted meanwhile"))
}

// create creates the cluster of a registration, not accepted, with the token's
// labels and those that it lets the agent choose.
func (c *Controller) create(ctx context.Context, q question, a answer) error {
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.name, Labels: maps.Clone(a.labels),
			Annotations: map[string]string{
				muster.ClientIDAnnotation:   q.clientID(),
				muster.ClusterUIDAnnotation: q.registration.Spec.ClusterUID,
			},
		},
		Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(false)},
	}
	if mc.Labels == nil {
		mc.Labels = map[string]string{}
	}
	if q.token != nil {
		maps.Copy(mc.Labels, q.token.scope.Labels)
		mc.Labels[cluster.TokenLabel] = q.token.id
	}
	mc.Labels[muster.RegistrationLabel] = q.registration.Name
	err := c.client.Create(ctx, mc)
	if apierrors.IsAlreadyExists(err) {
		// The cache does not show it yet. It is judged again when it does.
		return apierrors.NewConflict(clustersResource(), a.name, err)
	}
	return err
}

// adopt notes in a cluster that is there by which client ID and UID it registers.
func (c *Controller) adopt(ctx context.Context, q question, a answer) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: a.name}, mc); err != nil {
		return err
	}
	seen := append(slices.Clone(q.named), q.bound)
	if !slices.ContainsFunc(seen, func(s *clusterv1.ManagedCluster) bool { return s != nil && s.ResourceVersion == mc.ResourceVersion }) {
		return apierrors.NewConflict(clustersResource(), a.name, errors.New("it has changed meanwhile"))
	}
	want := map[string]string{muster.ClientIDAnnotation: q.clientID(), muster.ClusterUIDAnnotation: q.registration.Spec.ClusterUID}
	mc = mc.DeepCopy()
	written, err := patch.Object(ctx, c.client, mc, func() bool {
		changed := false
		for k, v := range want {
			if mc.Annotations[k] != v {
				metav1.SetMetaDataAnnotation(&mc.ObjectMeta, k, v)
				changed = true
			}
		}
		return changed
	})
	if err != nil {
		return fmt.Errorf("note the client ID in the cluster %s: %w", a.name, err)
	}
	if written {
		c.events.Eventf(mc, q.registration, corev1.EventTypeNormal, muster.ReasonRegistered, "Register",
			"the cluster whose kube-system has the UID %s registers by the client ID %s", q.registration.Spec.ClusterUID, q.clientID())
	}
	return nil
}

func clustersResource() schema.GroupResource {
	return schema.GroupResource{Group: cluster.GroupName, Resource: "managedclusters"}
}
