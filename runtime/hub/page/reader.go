package page

import (
	"context"
	"errors"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
)

// reader reads for a user, with no more than the user's rights. Lists come from what the
// controllers have in memory, and are not to be changed; single objects come from the store.
type reader struct {
	cached client.Client
	stored client.Reader
	who    user.Info
	// known are the answers to earlier questions about rights in this request.
	known map[authorizationv1.ResourceAttributes]error
}

// Get implements client.Reader.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if err := r.may(ctx, "get", o, key.Namespace, key.Name); err != nil {
		return err
	}
	return r.stored.Get(ctx, key, o, options...)
}

// List implements client.Reader.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	all := (&client.ListOptions{}).ApplyOptions(options)
	if err := r.may(ctx, "list", list, all.Namespace, ""); err != nil {
		return err
	}
	switch list.(type) {
	case *metav1.PartialObjectMetadataList, *corev1.EventList: // not in memory
		return r.stored.List(ctx, list, options...)
	}
	all.Limit, all.Continue = 0, "" // what is in memory needs no pages
	if err := r.cached.List(ctx, list, all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	list.SetContinue("")
	return nil
}

// may asks whether the user may read something. The error is as the API's.
func (r *reader) may(ctx context.Context, verb string, o runtime.Object, namespace, name string) error {
	kind, err := apiutil.GVKForObject(o, r.cached.Scheme())
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := r.cached.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = "" // a right in a namespace is none to what has none
	}
	right := authorizationv1.ResourceAttributes{Verb: verb, Group: kind.Group, Version: kind.Version,
		Resource: mapping.Resource.Resource, Namespace: namespace, Name: name}
	if refused, known := r.known[right]; known {
		return refused
	}
	allowed, _, err := authorization.Allowed(ctx, r.cached, r.who, right)
	if err != nil {
		return err
	}
	var refused error
	if !allowed {
		refused = apierrors.NewForbidden(
			mapping.Resource.GroupResource(),
			name,
			errors.New("you have no right to "+verb+" it"),
		)
	}
	r.known[right] = refused
	return refused
}
