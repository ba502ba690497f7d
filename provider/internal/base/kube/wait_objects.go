package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// WaitObjects lists objects and follows their changes until done says so, fails,
// or ctx ends. done sees all of them, by "namespace/name", or by "name" where they
// have no namespace. It lists once, whatever their number, where WaitList lists
// again with every change.
func (c *Client) WaitObjects(
	ctx context.Context, list runtime.Object, item Object, options ListOptions,
	done func(map[string]Object) (bool, error),
) error {
	var objects map[string]Object
	return c.until(ctx, item, options,
		func(ctx context.Context) (string, bool, error) {
			current := fresh(list)
			if err := c.List(ctx, current, options); err != nil {
				return "", false, err
			}
			objects = map[string]Object{}
			err := meta.EachListItem(current, func(item runtime.Object) error {
				if object, ok := item.(Object); ok {
					objects[keyOf(object)] = object
				}
				return nil
			})
			if err != nil {
				return "", false, err
			}
			accessor, err := meta.ListAccessor(current)
			if err != nil {
				return "", false, err
			}
			ok, err := done(objects)
			return accessor.GetResourceVersion(), ok, err
		},
		func(event watch.Event) (bool, error) {
			object, ok := event.Object.(Object)
			if !ok {
				return false, nil
			}
			if objects[keyOf(object)] = object; event.Type == watch.Deleted {
				delete(objects, keyOf(object))
			}
			return done(objects)
		})
}

func keyOf(object Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
