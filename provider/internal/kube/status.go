package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ApplyStatus makes the fields of the status that are set in obj so on the
// server and reads the result into obj, which has to exist there.
func (c *Client) ApplyStatus(ctx context.Context, obj Object, options ApplyOptions) error {
	gvk, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode the status of %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	request, err := c.request(obj, http.MethodPatch, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	return decodeFresh(applying(request.SubResource("status"), body, options).Do(ctx), obj)
}
