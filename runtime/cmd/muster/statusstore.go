package main

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
)

// readStore asks how full the hub's store is. It is nil for who may not know, and on a
// hub that does not say it.
func (f *hubFlags) readStore(ctx context.Context) (*hubinfo.Store, error) {
	path, err := f.path()
	if err != nil {
		return nil, err
	}
	config, err := f.config(path)
	if err != nil {
		return nil, err
	}
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the hub: %w", err)
	}
	answer, err := c.Get().AbsPath(hubinfo.StorePath).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	s := &hubinfo.Store{}
	if err == nil {
		err = json.Unmarshal(answer, s)
	}
	if err != nil {
		return nil, fmt.Errorf("read how full the hub's store is: %w", err)
	}
	return s, nil
}

// printStore prints how full the store is when that is worth a look.
func printStore(t tables, s *hubinfo.Store) {
	if s == nil || !s.Filling {
		return
	}
	t.row()
	t.row(fmt.Sprintf("the hub's store is filling up: %d MiB of its quota of %d MiB are in use; agents and bootstrap tokens can create nothing any more: "+
		"delete what is not needed", s.InUse>>20, s.Quota>>20))
}
