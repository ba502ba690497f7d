// Package applier brings objects of any kind in the managed cluster to the state
// that their manifests ask for, by the update strategy of each, and removes them. It
// also asks the cluster what the executor of a work, a service account, may do
// there; answers may be cached until a role or binding changes.
//
// It does not decide whether something has to be applied, see package decide, and
// does not report anything.
package applier

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Clients are for objects of any kind in the managed cluster, and share its pool of
// connections. The mapper learns of new kinds.
type Clients struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Mapper   meta.RESTMapper
}

// Connect makes the clients of a managed cluster. It sends no request.
func Connect(config *rest.Config, over *http.Client) (c Clients, err error) {
	if c.Mapper, err = apiutil.NewDynamicRESTMapper(config, over); err != nil {
		return Clients{}, err
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, over); err != nil {
		return Clients{}, err
	}
	c.Metadata, err = metadata.NewForConfigAndClient(config, over)
	return c, err
}

// Applier reads and writes objects of any kind in the managed cluster.
type Applier struct {
	client   dynamic.Interface
	rights   rightsToReplace
	versions versions
	clock    clock.PassiveClock
	// conflicted is called when an update met another one.
	conflicted func()
	// dry says that nothing is written: all requests are dry runs.
	dry bool
}

// rightsToReplace says whether the executor of a manifest may have its object
// deleted and made again.
type rightsToReplace interface {
	MayReplace(ctx context.Context, m *manifest.Manifest) error
}

// versions knows the resource versions of objects, as far as they are watched.
type versions interface {
	Version(gvr schema.GroupVersionResource, key manifest.Key) (version string, known bool)
}

// New makes the access to objects. conflicted is called when an update
// met another one.
func New(
	client dynamic.Interface, rights rightsToReplace, versions versions, clock clock.PassiveClock, conflicted func(),
) *Applier {
	return &Applier{client: client, rights: rights, versions: versions, clock: clock, conflicted: conflicted}
}

// Desired is what applying a manifest needs to know beside it.
type Desired struct {
	Owner metav1.OwnerReference
	// Settled is the body that the object had when it last was as the manifest
	// says; all zeros when that is not known.
	Settled manifest.Hash
	// Rest is the manifest's object without the fields that it ignores; nil when it
	// ignores none.
	Rest *manifest.Rest
	// New says that the work never held the object before: it most likely does not
	// exist.
	New bool
}

// Result is what applying a manifest led to.
type Result struct {
	Live  *unstructured.Unstructured // nil when there is nothing in the cluster
	Wrote bool                       // whether the object had to be made or changed
	Body  manifest.Hash              // of the object; all zeros when there is none
	// Recreated says that the object was deleted and created again.
	Recreated bool
}

// objects are those of one resource, in one namespace.
type objects interface {
	Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error)
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (
		*unstructured.Unstructured, error)
	Update(context.Context, *unstructured.Unstructured, metav1.UpdateOptions, ...string) (
		*unstructured.Unstructured, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (
		*unstructured.Unstructured, error)
	Delete(context.Context, string, metav1.DeleteOptions, ...string) error
}

func (o *Applier) resource(gvr schema.GroupVersionResource, namespace string) objects {
	var r dynamic.ResourceInterface = o.client.Resource(gvr)
	if namespace != "" {
		r = o.client.Resource(gvr).Namespace(namespace)
	}
	if o.dry {
		return dryRun{r}
	}
	return r
}

// target is the object of a manifest, which is brought to its desired state.
type target struct {
	*Applier
	at   objects
	m    *manifest.Manifest
	want Desired
}

// Apply brings a manifest's object to its desired state.
func (o *Applier) Apply(ctx context.Context, m *manifest.Manifest, want Desired) (Result, error) {
	if o.dry { // the owner may have yet to be made
		unowned := *m
		unowned.Owned = false
		m = &unowned
	}
	result, err := target{o, o.resource(m.GVR, m.Meta.Namespace), m, want}.apply(ctx)
	if err == nil && result.Live != nil {
		result.Body = bodyOf(result.Live)
	}
	return result, err
}

func (t target) apply(ctx context.Context) (Result, error) {
	switch t.m.Strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		live, err := t.read(ctx)
		return Result{Live: live}, err
	case workv1.UpdateStrategyTypeServerSideApply:
		return t.serverSideApply(ctx)
	case workv1.UpdateStrategyTypeCreateOnly:
		return t.createOnly(ctx)
	case workv1.UpdateStrategyTypeUpdate:
		return t.update(ctx)
	}
	return Result{}, fmt.Errorf("unknown update strategy %q: use Update, CreateOnly, ServerSideApply or ReadOnly",
		t.m.Strategy.Type)
}

// read reads the object; nil when it does not exist.
func (t target) read(ctx context.Context) (*unstructured.Unstructured, error) {
	return t.Get(ctx, t.m.GVR, t.m.Meta.Namespace, t.m.Meta.Name)
}

// Get reads an object; nil when it does not exist.
func (o *Applier) Get(
	ctx context.Context, gvr schema.GroupVersionResource, namespace, name string,
) (*unstructured.Unstructured, error) {
	live, err := o.resource(gvr, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return live, nil
}

// maxPods is how many pods of a workload are read.
const maxPods = 50

// Pods reads the pods in a namespace that a selector selects, or the first of them.
func (o *Applier) Pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := o.resource(corev1.SchemeGroupVersion.WithResource("pods"), namespace).
		List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
	if err != nil {
		return nil, err
	}
	pods := make([]corev1.Pod, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pods[i]); err != nil {
			return nil, fmt.Errorf("read the pod %s/%s: %w", namespace, list.Items[i].GetName(), err)
		}
	}
	return pods, nil
}

// Left is what is left of an object that is being deleted.
type Left struct {
	Finalizers []string // what holds it, where that is known
}

func remains(live *unstructured.Unstructured) *Left {
	return &Left{Finalizers: live.GetFinalizers()}
}

// Removal is what the end of a work's hold on an object comes to.
type Removal int

const (
	// RemovesNothing is for an object that is gone, or another one of its name.
	RemovesNothing Removal = iota
	// RemovesHold is for an object that stays: other works hold it, too, or it was
	// orphaned.
	RemovesHold
	// RemovesAlready is for an object that is being deleted.
	RemovesAlready
	// RemovesObject is for an object to delete.
	RemovesObject
)

// removal reads an object that a work has made, and decides what the end of the work's
// hold on it comes to.
func (o *Applier) removal(
	ctx context.Context, r workv1.AppliedManifestResourceMeta, owner types.UID,
) (Removal, *unstructured.Unstructured, error) {
	live, err := o.Get(ctx, resourceOf(r), r.Namespace, r.Name)
	if err != nil || live == nil {
		return RemovesNothing, nil, err
	}
	mine, others := owners(live.GetOwnerReferences(), owner)
	switch {
	case !mine, others:
		return RemovesHold, live, nil
	case r.UID != "" && r.UID != string(live.GetUID()):
		return RemovesNothing, live, nil // another object of the same name
	case live.GetDeletionTimestamp() != nil:
		return RemovesAlready, live, nil
	}
	return RemovesObject, live, nil
}

func resourceOf(r workv1.AppliedManifestResourceMeta) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// delete deletes one object as it was read.
func (o *Applier) delete(
	ctx context.Context, r workv1.AppliedManifestResourceMeta, live *unstructured.Unstructured,
) error {
	background := metav1.DeletePropagationBackground
	uid := live.GetUID()
	return o.resource(resourceOf(r), r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
}

// Remove deletes one object that a work has made, unless others own it now. It
// returns what is left of it, or nil when there is nothing to wait for.
func (o *Applier) Remove(
	ctx context.Context, r workv1.AppliedManifestResourceMeta, amw *workv1.AppliedManifestWork,
) (*Left, error) {
	removal, live, err := o.removal(ctx, r, amw.UID)
	switch {
	case err != nil:
		return &Left{}, err
	case removal == RemovesNothing:
		return nil, nil
	case removal == RemovesHold:
		resource := o.resource(resourceOf(r), r.Namespace)
		_, err := setOwner(ctx, resource, live, metav1.OwnerReference{UID: amw.UID}, false)
		if client.IgnoreNotFound(err) != nil {
			return remains(live), err
		}
		return nil, nil
	case removal == RemovesAlready:
		return remains(live), nil
	}
	uid := live.GetUID()
	err = o.delete(ctx, r, live)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return remains(live), err
	}
	// Most objects are gone at once.
	if live, err = o.Get(ctx, resourceOf(r), r.Namespace, r.Name); err != nil {
		return &Left{}, err
	}
	if live == nil || live.GetUID() != uid {
		return nil, nil
	}
	return remains(live), nil
}

// withOwner adds or removes an owner and reports whether that changed anything.
func withOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference, owned bool) ([]metav1.OwnerReference, bool) {
	var out []metav1.OwnerReference
	found := false
	for _, r := range refs {
		if r.UID == owner.UID {
			found = true
			if !owned {
				continue
			}
		}
		out = append(out, r)
	}
	if owned && !found {
		out = append(out, owner)
	}
	return out, owned != found
}

// owners reports whether an object is owned by the AppliedManifestWork with a
// UID, and whether by others of that kind.
func owners(refs []metav1.OwnerReference, uid types.UID) (mine, others bool) {
	for _, r := range refs {
		switch {
		case r.UID == uid:
			mine = true
		case r.APIVersion == workv1.GroupVersion.String() && r.Kind == "AppliedManifestWork":
			others = true
		}
	}
	return mine, others
}

// setOwner adds or removes the owner of an object, and nothing else. An object
// that others write meanwhile is read again; one that is re-created meanwhile is
// another object, and left alone.
func setOwner(
	ctx context.Context, resource objects, live *unstructured.Unstructured,
	owner metav1.OwnerReference, owned bool,
) (*unstructured.Unstructured, error) {
	uid := live.GetUID()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		refs, changed := withOwner(live.GetOwnerReferences(), owner, owned)
		if !changed {
			return nil
		}
		if refs == nil {
			refs = []metav1.OwnerReference{}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": uid, "resourceVersion": live.GetResourceVersion(), "ownerReferences": refs,
		}})
		if err != nil {
			return err
		}
		patched, err := resource.Patch(ctx, live.GetName(), types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: work.DefaultFieldManager})
		if err == nil {
			live = patched
		}
		if apierrors.IsConflict(err) {
			fresh, getErr := resource.Get(ctx, live.GetName(), metav1.GetOptions{})
			if getErr == nil && fresh.GetUID() == uid {
				live = fresh
			}
		}
		return err
	})
	return live, err
}
