package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
)

// A user may create registrationLimit cluster registrations within
// registrationPeriod. The hub deletes an answered one after that period.
const (
	registrationLimit  = 200
	registrationPeriod = 5 * time.Minute
)

// minRegistrationName is how long the name of a cluster registration has to be.
// Everybody who knows the name can read the registration, so nobody may guess it.
const minRegistrationName = 32

// clusterRegistrations completes and checks ClusterRegistrations: who creates one,
// and with which token, is not for the client to say.
type clusterRegistrations struct {
	creations
	*server
	clock clock.PassiveClock

	// made are the users who have created registrations, once for each.
	made *budget.Recent[string]
}

func newClusterRegistrations(s *server, clk clock.PassiveClock) clusterRegistrations {
	return clusterRegistrations{server: s, clock: clk, made: &budget.Recent[string]{Within: registrationPeriod}}
}

// Admit notes who registers, and the token.
func (p clusterRegistrations) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "clusterregistrations") {
		return nil
	}
	who := a.GetUserInfo()
	if !cluster.IsBootstrap(who.GetName(), who.GetGroups()) {
		return admission.NewForbidden(a, fmt.Errorf("user %q is no bootstrap identity: agents register with a bootstrap token; "+
			"to prepare a cluster, create a ManagedCluster with the annotation %s", who.GetName(), muster.ClientIDAnnotation))
	}
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a custom resource, got %T", a.GetObject()))
	}
	id, _ := cluster.TokenOfUser(who.GetName())
	if claimed, _, _ := unstructured.NestedString(object.Object, "spec", "token"); claimed != "" && claimed != id {
		return admission.NewForbidden(a, fmt.Errorf("spec.token is %q, and user %q comes with another token: leave spec.token out, the hub sets it",
			claimed, who.GetName()))
	}
	if id != "" {
		if err := set(object, id, "spec", "token"); err != nil {
			return err
		}
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[muster.RequesterAnnotation] = who.GetName()
	object.SetAnnotations(annotations)
	return nil
}

// Validate checks what may be asked for with the token, and how often.
func (p clusterRegistrations) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "clusterregistrations") {
		return nil
	}
	r, _, err := objects[musterv1alpha1.ClusterRegistration](a)
	if err != nil {
		return err
	}
	if err := checkRegistration(&r); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	scope, _, err := p.tokenScope(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if len(scope.ClientIDs) > 0 && !slices.Contains(scope.ClientIDs, r.Spec.ClientID) {
		return admission.NewForbidden(a, fmt.Errorf("the bootstrap token %q is for certain client IDs, and %q is none of them", r.Spec.Token, r.Spec.ClientID))
	}
	if err := p.room(a.GetUserInfo().GetName(), a.IsDryRun()); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// checkRegistration checks what does not depend on the user.
func checkRegistration(r *musterv1alpha1.ClusterRegistration) error {
	if r.GenerateName != "" || len(r.Name) < minRegistrationName {
		return fmt.Errorf("metadata.name is %q, and has to be a random one of %d characters at least, without generateName: "+
			"everybody who knows the name may read the registration", r.Name, minRegistrationName)
	}
	return errors.Join(cluster.CheckClientID(r.Spec.ClientID), cluster.CheckChosenLabels(r.Spec.Labels))
}

// room explains why a user may create no further registration now.
func (p clusterRegistrations) room(who string, dryRun bool) error {
	return p.made.Admit(p.clock.Now(), who, dryRun, func(before []string) error {
		made := 0
		for _, user := range before {
			if user == who {
				made++
			}
		}
		if made >= registrationLimit {
			return fmt.Errorf("user %q has created %d cluster registrations within %s, and may create no more: try again later, or use another token",
				who, made, registrationPeriod)
		}
		return nil
	})
}

// clientIDs keeps bootstrap identities from claiming client IDs by other ways
// than a ClusterRegistration, and tokens that are for certain client IDs from
// other clusters.
type clientIDs struct {
	creations
	*server
}

// Validate checks clusters and certificate requests of bootstrap identities.
func (p clientIDs) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	creates, requests := concerns(a, cluster.GroupName, "managedclusters"), concerns(a, certificatesv1.GroupName, "certificatesigningrequests")
	who := a.GetUserInfo()
	object, ok := a.GetObject().(metav1.Object)
	if !ok || !creates && !requests || !cluster.IsBootstrap(who.GetName(), who.GetGroups()) {
		return nil
	}
	if creates {
		if key := reservedKey(object); key != "" {
			return admission.NewForbidden(a, fmt.Errorf("user %q may not set %s: register by a client ID with a ClusterRegistration", who.GetName(), key))
		}
	}
	scope, _, err := p.tokenScope(who)
	switch {
	case err != nil:
		return admission.NewForbidden(a, err)
	case len(scope.ClientIDs) == 0:
		return nil
	case creates:
		return admission.NewForbidden(a, fmt.Errorf("the bootstrap token of user %q is for clusters with certain client IDs, which the hub creates: "+
			"start the agent without --cluster-name and with --client-id", who.GetName()))
	}
	name := object.GetLabels()[cluster.NameLabel]
	if slices.Contains(scope.UsedBy, name) {
		return nil
	}
	// The cache may not show yet what the token has just registered.
	if registered, err := p.registered(ctx, a, name); err != nil || registered {
		return err
	}
	return admission.NewForbidden(a, fmt.Errorf("the bootstrap token of user %q is for clusters with certain client IDs, and %s %q",
		who.GetName(), cluster.RefusedUnregistered, name))
}

// reservedKey is an annotation or label that bootstrap identities may not set.
func reservedKey(object metav1.Object) string {
	for _, key := range []string{muster.ClientIDAnnotation, muster.ClusterUIDAnnotation} {
		if _, ok := object.GetAnnotations()[key]; ok {
			return "the annotation " + key
		}
	}
	if _, ok := object.GetLabels()[muster.RegistrationLabel]; ok {
		return "the label " + muster.RegistrationLabel
	}
	return ""
}

// registered reports whether the hub has registered the cluster with the user's
// token.
func (p clientIDs) registered(ctx context.Context, a admission.Attributes, name string) (bool, error) {
	id, _ := cluster.TokenOfUser(a.GetUserInfo().GetName())
	secret, err := p.client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, cluster.TokenSecretPrefix+id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up what the bootstrap token %q was used for: %w", id, err)
	}
	scope, err := cluster.ParseTokenScope(secret.Annotations)
	if err != nil {
		return false, admission.NewForbidden(a, err)
	}
	return name != "" && slices.Contains(scope.UsedBy, name), nil
}
