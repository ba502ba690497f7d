package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Pages reads objects of the kind of list, size at a time, and hands each to take
// until that returns false. What is created or deleted meanwhile may be missed.
func (c *Client) Pages(
	ctx context.Context, list runtime.Object, options ListOptions, size int, take func(Object) bool,
) error {
	for continuation := ""; ; {
		page := fresh(list)
		result, err := c.page(ctx, page, options, size, continuation)
		if err == nil {
			err = result.Into(page)
		}
		if again := continuationOf(err); again != "" && again != continuation {
			continuation = again
			continue
		}
		if err != nil {
			return err
		}
		more, err := takeAll(page, take)
		if err != nil || !more {
			return err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return fmt.Errorf("read the next page: %w", err)
		}
		if continuation = accessor.GetContinue(); continuation == "" {
			return nil
		}
	}
}

// page asks for so many objects at most, from where the page before ended.
func (c *Client) page(
	ctx context.Context, page runtime.Object, options ListOptions, limit int, continuation string,
) (rest.Result, error) {
	request, err := c.request(page, http.MethodGet, options.Namespace, "")
	if err != nil {
		return rest.Result{}, err
	}
	next := map[string]string{"limit": strconv.Itoa(limit), "continue": continuation}
	return with(selecting(request, options), next).Do(ctx), nil
}

// errEnough ends the walk over a page.
var errEnough = errors.New("enough")

func takeAll(page runtime.Object, take func(Object) bool) (more bool, err error) {
	err = meta.EachListItem(page, func(item runtime.Object) error {
		object, ok := item.(Object)
		if !ok {
			return fmt.Errorf("read a page: %T is no object", item)
		}
		if !take(object) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return false, nil
	}
	return err == nil, err
}

// continuationOf is where to go on after the server has forgotten the state that
// the pages before were read from. It is empty for other errors.
func continuationOf(err error) string {
	status := statusOf(err)
	if status == nil || !apierrors.IsResourceExpired(err) {
		return ""
	}
	return status.Continue
}
