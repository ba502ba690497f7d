package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// drawPause is how long is waited after a change for others that come with it.
const drawPause = 200 * time.Millisecond

// quietAfter is how long after the last failure the hub counts as there again: a watch
// tries again every 30 seconds at the latest.
const quietAfter = time.Minute

// watchFleet shows the fleet, and again whenever something in it changes, until the
// context ends.
func (f *hubFlags) watchFleet(ctx context.Context, out io.Writer, all bool) error {
	live, err := f.client()
	if err != nil {
		return err
	}
	path, err := f.path()
	if err != nil {
		return err
	}
	config, err := f.config(path)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	watched, err := cache.New(config, cache.Options{
		Scheme: api.Scheme(), Mapper: restmapper.Static(), DefaultTransform: lean, ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler: func(ctx context.Context, _ *toolscache.Reflector, err error) {
			if ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !errors.Is(err, io.EOF) {
				offer(lost, err)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch the hub: %w", err)
	}
	r := &watchReader{cache: watched, live: live, refused: map[string]error{}}
	changed := make(chan struct{}, 1)
	if err := r.follow(ctx, changed); err != nil {
		return ended(ctx, err)
	}
	go func() { _ = watched.Start(ctx) }()
	if !watched.WaitForCacheSync(ctx) {
		return ended(ctx, fmt.Errorf("the hub does not answer"))
	}
	store, err := f.readStore(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	d := display{out: out, all: all}
	d.height = func() int { return 0 }
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		d.terminal = true
		d.height = func() int { _, height, _ := term.GetSize(int(file.Fd())); return height }
	}
	for {
		s, err := readFleet(ctx, r)
		if err != nil {
			return ended(ctx, err)
		}
		s.Store, s.flags = store, f.flags()
		if err := d.show(s, time.Now()); err != nil {
			return err
		}
		var quiet <-chan time.Time
		if d.problem != "" {
			quiet = time.After(quietAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-quiet:
			d.problem = ""
		case err := <-lost: // the watches try again by themselves
			d.problem = fmt.Sprintf("the hub does not answer, trying again: %v", err)
		case <-changed:
			d.problem = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(drawPause):
		}
	}
}

// ended is nil when a failure is nothing but that the user has ended the command.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// offer puts a value into a channel, unless one waits there.
func offer[T any](c chan T, value T) {
	select {
	case c <- value:
	default:
	}
}

// lean takes from an object that is kept what the status does not show.
func lean(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *workv1.ManifestWork:
		for i := range o.Spec.Workload.Manifests {
			o.Spec.Workload.Manifests[i] = workv1.Manifest{}
		}
		o.Status.ResourceStatus = workv1.ManifestResourceStatus{}
	case *workv1alpha1.ManifestWorkReplicaSet:
		o.Spec.ManifestWorkTemplate = workv1.ManifestWorkSpec{}
	}
	return o, nil
}

// watchReader reads what watches keep up to date, and other objects from the hub.
type watchReader struct {
	cache cache.Cache
	live  client.Client
	// refused is why a kind is not watched, by the type of its list.
	refused map[string]error
	// endpoints are where the hub is, as it said last.
	endpoints *corev1.ConfigMap
}

// follow watches the kinds of which the status is made. Those that may not be listed, or
// that the hub does not have, are noted.
func (r *watchReader) follow(ctx context.Context, changed chan struct{}) error {
	dirty := func() { offer(changed, struct{}{}) }
	for _, k := range []struct {
		object client.Object
		list   client.ObjectList
	}{
		{&clusterv1.ManagedCluster{}, &clusterv1.ManagedClusterList{}},
		{&clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetList{}},
		{&clusterv1beta1.Placement{}, &clusterv1beta1.PlacementList{}},
		{&clusterv1beta1.PlacementDecision{}, &clusterv1beta1.PlacementDecisionList{}},
		{&workv1alpha1.ManifestWorkReplicaSet{}, &workv1alpha1.ManifestWorkReplicaSetList{}},
		{&workv1.ManifestWork{}, &workv1.ManifestWorkList{}},
		{&addonv1alpha1.ClusterManagementAddOn{}, &addonv1alpha1.ClusterManagementAddOnList{}},
		{&addonv1alpha1.ManagedClusterAddOn{}, &addonv1alpha1.ManagedClusterAddOnList{}},
	} {
		if err := r.live.List(ctx, k.list, client.Limit(1)); err != nil {
			r.refused[fmt.Sprintf("%T", k.list)] = err
			continue
		}
		informer, err := r.cache.GetInformer(ctx, k.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch the hub: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { dirty() }, UpdateFunc: func(any, any) { dirty() }, DeleteFunc: func(any) { dirty() },
		}); err != nil {
			return fmt.Errorf("watch the hub: %w", err)
		}
	}
	return nil
}

func (r *watchReader) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	options ...client.GetOption) error {
	config, ok := o.(*corev1.ConfigMap)
	if !ok {
		return r.cache.Get(ctx, key, o, options...)
	}
	err := r.live.Get(ctx, key, o, options...)
	switch {
	case err == nil:
		r.endpoints = config.DeepCopy()
	case r.endpoints != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err): // the hub is away
		r.endpoints.DeepCopyInto(config)
		return nil
	}
	return err
}

// List lists all at once: what is kept here needs no pages.
func (r *watchReader) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if err := r.refused[fmt.Sprintf("%T", list)]; err != nil {
		return err
	}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	list.SetContinue("") // caches put a text there that is no page
	return nil
}

// display shows a fleet that changes.
type display struct {
	out      io.Writer
	all      bool
	terminal bool
	// height is how many lines the terminal has; 0 when nobody knows.
	height func() int
	// problem is why what is shown may not be what is.
	problem string
	// before are the sentences that were shown last, by what they are about.
	before map[string]string
	// said is the problem that was shown last.
	said string
}

// show draws the tables on a terminal. Elsewhere it prints them once, and then a line for
// each change.
func (d *display) show(s *fleetStatus, now time.Time) error {
	var b strings.Builder
	sentences := s.sentences()
	switch {
	case d.terminal:
		if err := s.print(&b, rowsShown(d.all)); err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if most := d.height() - 2; most > 0 && len(lines) > most {
			lines = append(lines[:most], fmt.Sprintf("and %d more lines, for which the terminal is too small",
				len(lines)-most))
		}
		if d.problem != "" {
			lines = append(lines, cell(d.problem))
		}
		_, err := fmt.Fprintf(d.out, "\x1b[H\x1b[2J%s\n", strings.Join(lines, "\n"))
		return err
	case d.before == nil:
		if err := s.print(&b, rowsShown(d.all)); err != nil {
			return err
		}
		b.WriteByte('\n')
	default:
		for _, key := range slices.Sorted(maps.Keys(sentences)) {
			if sentences[key] != d.before[key] {
				fmt.Fprintf(&b, "%s %s\n", now.UTC().Format(time.RFC3339), cell(sentences[key]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(d.before)) {
			if _, still := sentences[key]; !still {
				fmt.Fprintf(&b, "%s The %s is gone.\n", now.UTC().Format(time.RFC3339), cell(key))
			}
		}
	}
	if d.problem != d.said && d.problem != "" {
		fmt.Fprintf(&b, "%s %s\n", now.UTC().Format(time.RFC3339), cell(d.problem))
	}
	d.before, d.said = sentences, d.problem
	_, err := io.WriteString(d.out, b.String())
	return err
}

// sentences say how each part of the fleet is, by what it is.
func (s *fleetStatus) sentences() map[string]string {
	out := map[string]string{}
	for _, x := range s.Sets {
		out["set "+x.Name] = fmt.Sprintf("The set %s has %d clusters, and %d of them are available.", x.Name,
			x.Clusters, x.Available)
	}
	for _, m := range s.Clusters {
		out["cluster "+m.Name] = m.State
	}
	for _, p := range s.PlacementStates {
		out["placement "+p.Namespace+"/"+p.Name] = p.State
	}
	for _, r := range s.Rollouts {
		out["replica set "+r.Namespace+"/"+r.Name] = r.State
	}
	for _, w := range s.Works {
		out["work "+w.Name+" in "+w.Cluster] = w.State
	}
	for _, a := range s.AddOns {
		out["add-on "+a.Name] = fmt.Sprintf("The add-on %s is installed in %d clusters: %s.", a.Name, a.Installed,
			a.addOnCounts)
	}
	return out
}
