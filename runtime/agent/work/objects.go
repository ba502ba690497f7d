package work

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// objects reads and writes objects of any kind in the managed cluster.
type objects struct {
	client  dynamic.Interface
	mapper  meta.RESTMapper
	reviews client.Client // for access reviews
	config  *rest.Config  // for impersonation
	metrics *Metrics
	grants  *grants // nil without the gate ExecutorValidatingCaches
}

// errIgnoreFields marks what went wrong with a manifest's ignored fields.
var errIgnoreFields = errors.New("Failed to process ignoreFields")

// applyConflictError is a conflict with another field manager, in the server's
// words. No quick retry resolves it.
type applyConflictError struct{ error }

func (e applyConflictError) Unwrap() error { return e.error }

// isApplyConflict reports whether a manifest's fields belong to others.
func isApplyConflict(err error) bool {
	var conflict applyConflictError
	return errors.As(err, &conflict)
}

// result is what applying a manifest led to.
type result struct {
	live  *unstructured.Unstructured // nil when there is nothing in the cluster
	wrote bool                       // whether the object had to be made or changed
}

func (o *objects) resource(gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return o.client.Resource(gvr)
	}
	return o.client.Resource(gvr).Namespace(namespace)
}

// apply brings a manifest's object to its wanted state. settled is the body that
// the object had when it last was in it, if that is known.
func (o *objects) apply(ctx context.Context, m *manifest, owner metav1.OwnerReference, settled bodyHash) (result, error) {
	resource := o.resource(m.gvr, m.meta.Namespace)
	switch m.strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		live, err := o.get(ctx, m.gvr, m.meta.Namespace, m.meta.Name)
		return result{live, false}, err
	case workv1.UpdateStrategyTypeServerSideApply:
		return o.serverSideApply(ctx, resource, m, owner)
	case workv1.UpdateStrategyTypeCreateOnly:
		return o.createOnly(ctx, resource, m, owner)
	case workv1.UpdateStrategyTypeUpdate:
		return o.update(ctx, resource, m, owner, settled)
	}
	return result{}, fmt.Errorf("unknown update strategy %q: use Update, CreateOnly, ServerSideApply or ReadOnly", m.strategy.Type)
}

// getOrCreate returns a manifest's object, making it when it is missing. What
// the work never held before is most likely missing.
func getOrCreate(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (live *unstructured.Unstructured, made bool, err error) {
	if m.fresh {
		if live, err = create(ctx, resource, m, owner); err == nil {
			return live, true, nil
		}
	}
	createErr := err
	live, err = resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return live, false, nil
	case !apierrors.IsNotFound(err):
		return nil, false, err
	case createErr != nil:
		return nil, false, createErr
	}
	live, err = create(ctx, resource, m, owner)
	if apierrors.IsAlreadyExists(err) { // somebody else was faster
		live, err = resource.Get(ctx, m.meta.Name, metav1.GetOptions{})
		return live, false, err
	}
	return live, err == nil, err
}

// create makes the object of a manifest.
func create(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
	object := m.required.DeepCopy()
	object.SetLabels(withoutRemovals(object.GetLabels()))
	object.SetAnnotations(withoutRemovals(object.GetAnnotations()))
	if m.owned {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), owner))
	}
	return resource.Create(ctx, object, metav1.CreateOptions{FieldManager: work.DefaultFieldManager})
}

func (o *objects) createOnly(ctx context.Context, resource dynamic.ResourceInterface, m *manifest, owner metav1.OwnerReference) (result, error) {
	live, made, err := getOrCreate(ctx, resource, m, owner)
	if err != nil || made {
		return result{live, made}, err
	}
	owned, err := setOwner(ctx, resource, live, owner, m.owned)
	return result{owned, owned != live}, err
}

// get reads an object; nil when it does not exist.
func (o *objects) get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	live, err := o.resource(gvr, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return live, nil
}
