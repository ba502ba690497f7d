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
