package applier

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Applier reads and writes objects of any kind in the managed cluster.
type Applier struct {
	client dynamic.Interface
	rights rightsToReplace
	// conflicted is called when an update met another one.
	conflicted func()
}

// rightsToReplace says whether the executor of a manifest may have its object
// deleted and made again.
type rightsToReplace interface {
	MayReplace(ctx context.Context, m *manifest.Manifest) error
}

// New makes the access to objects. conflicted is called when an update
// met another one.
func New(client dynamic.Interface, rights rightsToReplace, conflicted func()) *Applier {
	return &Applier{client: client, rights: rights, conflicted: conflicted}
}

// Desired is what applying a manifest needs to know beside it.
type Desired struct {
	Owner metav1.OwnerReference
	// Settled is the body that the object had when it last was as the manifest
	// says; all zeros when that is not known.
	Settled manifest.Hash
	// Fresh says that the work never held the object before: it most likely does
	// not exist.
	Fresh bool
}

// Result is what applying a manifest led to.
type Result struct {
	Live  *unstructured.Unstructured // nil when there is nothing in the cluster
	Wrote bool                       // whether the object had to be made or changed
}

func (o *Applier) resource(gvr schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return o.client.Resource(gvr)
	}
	return o.client.Resource(gvr).Namespace(namespace)
}

// Apply brings a manifest's object to its desired state.
func (o *Applier) Apply(ctx context.Context, m *manifest.Manifest, want Desired) (Result, error) {
	resource := o.resource(m.GVR, m.Meta.Namespace)
	switch m.Strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		live, err := o.Get(ctx, m.GVR, m.Meta.Namespace, m.Meta.Name)
		return Result{live, false}, err
	case workv1.UpdateStrategyTypeServerSideApply:
		return o.serverSideApply(ctx, resource, m, want.Owner)
	case workv1.UpdateStrategyTypeCreateOnly:
		return o.createOnly(ctx, resource, m, want)
	case workv1.UpdateStrategyTypeUpdate:
		return o.update(ctx, resource, m, want)
	}
	return Result{}, fmt.Errorf("unknown update strategy %q: use Update, CreateOnly, ServerSideApply or ReadOnly", m.Strategy.Type)
}

// getOrCreate returns a manifest's object, and creates it when it is missing.
func getOrCreate(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, want Desired,
) (live *unstructured.Unstructured, made bool, err error) {
	if want.Fresh {
		if live, err = create(ctx, resource, m, want.Owner); err == nil {
			return live, true, nil
		}
	}
	createErr := err
	live, err = resource.Get(ctx, m.Meta.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return live, false, nil
	case !apierrors.IsNotFound(err):
		return nil, false, err
	case createErr != nil:
		return nil, false, createErr
	}
	live, err = create(ctx, resource, m, want.Owner)
	if apierrors.IsAlreadyExists(err) { // another client was faster
		live, err = resource.Get(ctx, m.Meta.Name, metav1.GetOptions{})
		return live, false, err
	}
	return live, err == nil, err
}

// create makes the object of a manifest.
func create(
	ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, owner metav1.OwnerReference,
) (*unstructured.Unstructured, error) {
	object := m.Required.DeepCopy()
	object.SetLabels(withoutRemovals(object.GetLabels()))
	object.SetAnnotations(withoutRemovals(object.GetAnnotations()))
	if m.Owned {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), owner))
	}
	return resource.Create(ctx, object, metav1.CreateOptions{FieldManager: work.DefaultFieldManager})
}

func (o *Applier) createOnly(ctx context.Context, resource dynamic.ResourceInterface, m *manifest.Manifest, want Desired) (Result, error) {
	live, made, err := getOrCreate(ctx, resource, m, want)
	if err != nil || made {
		return Result{live, made}, err
	}
	owned, err := setOwner(ctx, resource, live, want.Owner, m.Owned)
	return Result{owned, owned != live}, err
}

// Get reads an object; nil when it does not exist.
func (o *Applier) Get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	live, err := o.resource(gvr, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return live, nil
}
