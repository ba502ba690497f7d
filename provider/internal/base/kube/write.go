package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ApplyOptions say in whose name and how a server-side apply is made.
type ApplyOptions struct {
	// Manager is the field manager.
	Manager string
	// Force takes fields over from other managers.
	Force bool
	// CreateOnly refuses, with a conflict, to change an object that exists.
	CreateOnly bool
	// DryRun has the server tell what would come of it, and change nothing.
	DryRun bool
}

// neverVersion is a resource version that no object has: a server's count begins
// with 1, before its first object. An apply that names a version only goes through
// for an object with that version, and for one that does not exist yet.
const neverVersion = "1"

// Apply makes the fields that are set in obj so on the server, creating the
// object if need be, and reads the result into obj. A UID in obj keeps it from
// being created. With a resource version in obj, an object that has changed since
// is refused as a conflict.
func (c *Client) Apply(ctx context.Context, obj Object, options ApplyOptions) error {
	if options.CreateOnly {
		obj.SetResourceVersion(neverVersion)
	}
	return c.apply(ctx, obj, "", options)
}

// ApplyStatus makes the fields of the status that are set in obj so on the
// server and reads the result into obj, which has to exist there.
func (c *Client) ApplyStatus(ctx context.Context, obj Object, options ApplyOptions) error {
	return c.apply(ctx, obj, "status", options)
}

func (c *Client) apply(ctx context.Context, obj Object, subresource string, options ApplyOptions) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	w := writing{
		verb: http.MethodPatch, subresource: subresource, manager: options.Manager, patch: types.ApplyPatchType,
		body: obj, parameters: map[string]string{},
	}
	if options.Force {
		w.parameters["force"] = "true"
	}
	if options.DryRun {
		w.parameters["dryRun"] = metav1.DryRunAll
	}
	return c.write(ctx, obj, w, obj)
}

// MergePatch sends a JSON merge patch and reads the result into obj, which names
// the object. A resource version in the patch makes it fail if the object has
// changed since.
func (c *Client) MergePatch(ctx context.Context, obj Object, manager string, patch any) error {
	return c.mergePatch(ctx, obj, "", manager, patch)
}

// MergePatchStatus is MergePatch for the status.
func (c *Client) MergePatchStatus(ctx context.Context, obj Object, manager string, patch any) error {
	return c.mergePatch(ctx, obj, "status", manager, patch)
}

func (c *Client) mergePatch(ctx context.Context, obj Object, subresource, manager string, patch any) error {
	return c.write(ctx, obj, writing{
		verb: http.MethodPatch, subresource: subresource, manager: manager, patch: types.MergePatchType, body: patch,
	}, obj)
}

// writing is what is sent to write an object.
type writing struct {
	verb, subresource, manager string
	// patch is the kind of a patch, whose body is written as JSON; empty for an object.
	patch      types.PatchType
	body       any
	parameters map[string]string
}

// write writes an object and reads the answer into another one, or into the same.
func (c *Client) write(ctx context.Context, obj Object, w writing, into Object) error {
	name := obj.GetName()
	if w.verb == http.MethodPost && w.subresource == "" {
		name = "" // It is in the body.
	}
	request, err := c.request(obj, w.verb, obj.GetNamespace(), name)
	if err != nil {
		return err
	}
	if w.patch != "" {
		if w.body, err = json.Marshal(w.body); err != nil {
			return fmt.Errorf("encode a patch of %s: %w", obj.GetName(), err)
		}
		request = request.SetHeader("Content-Type", string(w.patch))
	}
	defer c.forget(obj, obj.GetNamespace(), obj.GetName())
	request = with(with(request.SubResource(w.subresource), w.parameters), map[string]string{"fieldManager": w.manager})
	return decodeFresh(request.Body(w.body).Do(ctx), into)
}

// Deletion is what became of a request to delete an object.
type Deletion struct {
	// Gone says that the object does not exist any more. Otherwise it waits for
	// its finalizers or contents.
	Gone bool
	// UID is that of the object that waits.
	UID types.UID
}

// Delete asks for an object's deletion and does not wait for it. With a UID only
// that very object is deleted, and not another of its name. An object that is
// not there is gone.
func (c *Client) Delete(ctx context.Context, obj Object, namespace, name string, uid types.UID) (Deletion, error) {
	return c.DeleteIf(ctx, obj, namespace, name, metav1.Preconditions{UID: &uid})
}

// DeleteIf is Delete with preconditions; empty ones are ignored. An
// object that does not meet them is left, with a conflict as the error.
func (c *Client) DeleteIf(
	ctx context.Context, obj Object, namespace, name string, conditions metav1.Preconditions,
) (Deletion, error) {
	request, err := c.request(obj, http.MethodDelete, namespace, name)
	if err != nil {
		return Deletion{}, err
	}
	policy := metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{PropagationPolicy: &policy}
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	if conditions.UID != nil && *conditions.UID == "" {
		conditions.UID = nil
	}
	if conditions != (metav1.Preconditions{}) {
		options.Preconditions = &conditions
	}
	body, err := json.Marshal(options)
	if err != nil {
		return Deletion{}, fmt.Errorf("encode the deletion of %s: %w", name, err)
	}
	defer c.forget(obj, namespace, name)
	result := request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		if IsNotFound(err, name) {
			return Deletion{Gone: true}, nil
		}
		return Deletion{}, err
	}
	// An object that goes at once is answered with a Status, one that has to wait
	// with the object.
	raw, err := result.Raw()
	if err != nil {
		return Deletion{}, err
	}
	var answer metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Deletion{}, fmt.Errorf("read the answer to the deletion of %s: %w", name, err)
	}
	return Deletion{Gone: answer.Kind == "Status", UID: answer.UID}, nil
}

// DeleteAndWait deletes an object and waits until it is gone. When ctx ends
// first, obj holds what was seen last.
func (c *Client) DeleteAndWait(ctx context.Context, obj Object, namespace, name string) error {
	deletion, err := c.Delete(ctx, obj, namespace, name, "")
	if err != nil || deletion.Gone {
		return err
	}
	return c.WaitGone(ctx, obj, namespace, name, deletion.UID)
}
