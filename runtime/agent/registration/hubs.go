package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// DefaultHubTimeout is how long a hub may be out of reach before an agent that
// has others to choose from moves on.
const DefaultHubTimeout = 600 * time.Second

var (
	errDenied = errors.New("the hub has denied the cluster")
	errSilent = errors.New("the hub has been out of reach for too long")
)

// several reports whether there is more than one hub to choose from.
func (r *Registration) several() bool { return len(r.candidates) > 0 }

// choose points the registration to the hub to register with: the one whose
// identity is stored, as long as it can be used, and else the first that can.
func (r *Registration) choose(ctx context.Context, stored identity.Identity) error {
	var problems []string
	for _, s := range inOrder(r.candidates, stored.Hub.Server) {
		b, err := s.current()
		if err == nil {
			err = r.usable(ctx, b)
		}
		if err == nil {
			r.source = s
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		problems = append(problems, fmt.Sprintf("%s: %v", s.file, err))
	}
	return fmt.Errorf("none of the hubs of --bootstrap-kubeconfigs can be used, trying again: %s", strings.Join(problems, "; "))
}

// inOrder puts the candidate first that leads to the present hub.
func inOrder(candidates []*source, present string) []*source {
	ordered := make([]*source, 0, len(candidates))
	var others []*source
	for _, s := range candidates {
		if b, err := s.current(); err == nil && present != "" && b.Endpoint.Server == present {
			ordered = append(ordered, s)
			continue
		}
		others = append(others, s)
	}
	return append(ordered, others...)
}

// usable says why a hub can't be registered with, or nil: it has to be there,
// to let the bootstrap identity register, and not to have denied the cluster.
func (r *Registration) usable(ctx context.Context, b *identity.Bootstrap) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	hub, err := r.newClient(b.Config)
	if err != nil {
		return err
	}
	for _, attributes := range needed(r.ClusterName) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
		if err := hub.Create(ctx, review); err != nil {
			return explain(err, b.Endpoint.Server)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("the hub %s does not let the bootstrap kubeconfig %s %s: use a token for this cluster or for any",
				b.Endpoint.Server, attributes.Verb, attributes.Resource)
		}
	}
	mc := &clusterv1.ManagedCluster{}
	err = hub.Get(ctx, client.ObjectKey{Name: r.ClusterName}, mc)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return explain(err, b.Endpoint.Server)
	case !mc.Spec.AcceptsClient():
		return fmt.Errorf("the hub %s does not accept the cluster %s: set hubAcceptsClient in its ManagedCluster, or delete it there",
			b.Endpoint.Server, r.ClusterName)
	}
	return nil
}

// needed is what a bootstrap identity has to be allowed. It is asked with the
// cluster's name, as the identity may be good for this cluster only.
func needed(name string) []authorizationv1.ResourceAttributes {
	mine := &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
		{Key: cluster.NameLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{name}},
	}}
	requests := func(verb string, selector *authorizationv1.LabelSelectorAttributes) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName, Version: "v1", Resource: "certificatesigningrequests", Verb: verb, LabelSelector: selector}
	}
	clusters := authorizationv1.ResourceAttributes{Group: cluster.GroupName, Version: "v1", Resource: "managedclusters", Name: name}
	create, get := clusters, clusters
	create.Verb, get.Verb = "create", "get"
	return []authorizationv1.ResourceAttributes{create, get, requests("create", nil), requests("list", mine), requests("watch", mine)}
}

// watchHub ends the session, when there are other hubs to choose from, as soon
// as the hub denies the cluster, or once it has been out of reach for too long.
func (s *session) watchHub(ctx context.Context) {
	if !s.several() {
		return
	}
	s.contact()
	loop.Run(ctx, s.Clock, s.clusters.Subscribe(), s.HubTimeout, func(ctx context.Context) time.Duration {
		if mc, ok := s.clusters.Get(s.ClusterName); ok && mc.DeletionTimestamp.IsZero() && !mc.Spec.AcceptsClient() {
			s.end(errDenied)
		} else if s.lost(ctx) {
			s.end(errSilent)
		}
		if left := s.HubTimeout - s.Clock.Since(*s.lastContact.Load()); left > 0 {
			return left
		}
		return s.HubTimeout // it answers, and the next heartbeat is still to come
	})
}

// lost reports whether the hub has to be given up: it has not been heard of for as
// long as is allowed, and does not answer when asked, or answers without taking
// heartbeats. Heartbeats may be further apart than what is allowed.
func (s *session) lost(ctx context.Context) bool {
	silent := s.Clock.Since(*s.lastContact.Load())
	if silent < s.HubTimeout {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := s.hub.Get(ctx, client.ObjectKey{Name: s.ClusterName}, &clusterv1.ManagedCluster{})
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return true
	}
	mc, _ := s.clusters.Get(s.ClusterName)
	period := beatPeriod(mc)
	if period == 0 {
		s.contact()
		return false
	}
	return silent >= max(s.HubTimeout, 2*period)
}

// contact notes that the hub has answered.
func (s *session) contact() {
	now := s.Clock.Now()
	s.lastContact.Store(&now)
}

// beating reports whether the agent is to give signs of life, which then show
// whether the hub is in reach.
func (s *session) beating() bool {
	mc, ok := s.clusters.Get(s.ClusterName)
	return ok && beatPeriod(mc) > 0
}
