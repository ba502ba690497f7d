package access

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

const (
	// lookPeriod is how often a hub without user access is asked whether it has it
	// by now.
	lookPeriod = time.Hour
	// requestTimeout bounds single requests.
	requestTimeout = 30 * time.Second
)

// watcher waits for a hub that has user access.
type watcher struct {
	Options
	hub, local client.WithWatch
	unable     retry.Once
}

// run lets users in for as long as the hub has user access, and in between asks it
// once an hour, until ctx ends.
func (w *watcher) run(ctx context.Context) {
	failing := retry.New(w.Clock, retry.Start(time.Minute))
	for ctx.Err() == nil {
		hubID, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Log.Debug("cannot ask the hub whether it has user access, trying again", "err", err)
			failing.Wait(ctx, nil)
			continue
		case hubID == "":
			if w.unable.Changed("the hub has no user access") {
				w.Log.Debug("the hub has no user access, asking again once an hour")
			}
			w.Annotate(muster.UserAccessAnnotation, "")
			retry.Sleep(ctx, w.Clock, lookPeriod, nil)
			continue
		}
		w.unable.Clear()
		start := w.Clock.Now()
		newAgent(w.Options, w.hub, w.local, hubID).run(ctx)
		if w.Clock.Since(start) > time.Minute {
			failing.Reset()
		}
		failing.Wait(ctx, nil)
	}
}

// look asks the hub for its ID; "" is a hub without user access.
func (w *watcher) look(ctx context.Context) (hubID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info := &corev1.ConfigMap{}
	err = w.hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "", nil // an upstream hub
	case err != nil:
		return "", err
	case !hubinfo.Has(info.Data, hubinfo.UserAccess):
		return "", nil
	}
	return info.Data[hubinfo.HubIDKey], nil
}
