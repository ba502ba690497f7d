package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
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
	*tokenScopes
	clock clock.PassiveClock

	mu sync.Mutex
	// made are the times at which each user has created registrations.
	made map[string][]time.Time
}

var (
	_ admission.MutationInterface                  = &clusterRegistrations{}
	_ admission.ValidationInterface                = &clusterRegistrations{}
	_ initializer.WantsExternalKubeInformerFactory = &clusterRegistrations{}
)

func (*clusterRegistrations) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit notes who registers, and the token.
func (p *clusterRegistrations) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
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
func (p *clusterRegistrations) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, muster.GroupName, "clusterregistrations") {
		return nil
	}
	var r musterv1alpha1.ClusterRegistration
	if err := decode(a.GetObject(), &r); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the ClusterRegistration cannot be read: %v", err))
	}
	if err := checkRegistration(&r); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	scope, _, err := p.of(a.GetUserInfo())
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
func (p *clusterRegistrations) room(who string, dryRun bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for user, times := range p.made {
		if p.made[user] = slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) >= registrationPeriod }); len(p.made[user]) == 0 {
			delete(p.made, user)
		}
	}
	if len(p.made[who]) >= registrationLimit {
		return fmt.Errorf("user %q has created %d cluster registrations within %s, and may create no more: try again later, or use another token",
			who, len(p.made[who]), registrationPeriod)
	}
	if !dryRun {
		if p.made == nil {
			p.made = map[string][]time.Time{}
		}
		p.made[who] = append(p.made[who], now)
	}
	return nil
}
