// Package action has the actions of the provider: what administrators do to a fleet
// from day to day, and Terraform 1.14 and later on request. They wait until clusters
// have joined, deny or detach one, have an agent renew its certificate, revoke
// bootstrap tokens, have a work applied once more, resume a rollout that has stopped,
// approve groups of one, and pause it.
//
// All of them write nothing when nothing is to be done, so that they can be
// repeated. What is asked of an agent is an annotation that the agent removes when
// it has done it: two who ask at the same time ask once, and both learn of it.
package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// All are the actions of the provider.
func All() []func() action.Action {
	var all []func() action.Action
	for _, d := range []declaration{
		waitJoined(), denyCluster(), detachCluster(), rotateCertificate(), revokeToken(), replayWork(), resumeRollout(),
		approveRollout(), pauseRollout(),
	} {
		all = append(all, func() action.Action { return &declared{declaration: d} })
	}
	return all
}

// clusterName is the attribute that names one managed cluster.
const clusterName = "managed_cluster"

// declaration is an action: all that is particular to it.
type declaration struct {
	// name is its type without "muster_".
	name, description string
	attributes        map[string]schema.Attribute
	// takes is what the attribute timeout limits, and timeout its default; an action
	// without them does not wait.
	takes      string
	timeout    time.Duration
	validators []action.ConfigValidator
	// doing is what it does, for errors, and to are the attributes that name to what.
	doing string
	to    []string
	do    func(ctx context.Context, r *run) error
}

var (
	_ action.ActionWithConfigure        = (*declared)(nil)
	_ action.ActionWithConfigValidators = (*declared)(nil)
)

// declared is the action of a declaration.
type declared struct {
	declaration
	hub *hub.Hub
}

// Metadata implements action.Action.
func (a *declared) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.name
}

// Schema implements action.Action.
func (a *declared) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	if a.takes != "" {
		a.attributes["timeout"] = attribute.Optional(attribute.TimeoutText(a.takes, a.timeout),
			attribute.ValidDuration(time.Second))
	}
	resp.Schema = schema.Schema{MarkdownDescription: a.description, Attributes: a.attributes}
}

// Configure implements action.ActionWithConfigure.
func (a *declared) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.hub = hub.Configured(req.ProviderData, &resp.Diagnostics)
}

// ConfigValidators implements action.ActionWithConfigValidators.
func (a *declared) ConfigValidators(context.Context) []action.ConfigValidator { return a.validators }

// someClusters are the names of clusters.
func someClusters(description string) schema.Attribute {
	return attribute.OptionalTextSet(description, setvalidator.SizeAtLeast(1),
		setvalidator.ValueStringsAre(attribute.ValidClusterName()))
}

const (
	// looksEvery is how often a wait looks at what no watch shows.
	looksEvery = time.Second
	// remindsEvery is how often a wait says that it still waits.
	remindsEvery = 20 * time.Second
)

// run is one run of an action. It shows each thing that the action does once, and from time
// to time what it waits for. It may be used from several goroutines, and calls its functions
// one at a time.
type run struct {
	// Values are the configuration, and cluster is its managed_cluster.
	attribute.Values
	cluster string
	hub     *hub.Hub
	client  *kube.Client
	timeout time.Duration
	// progress gets what has happened, or what is being waited for; warning what does
	// not make the action fail.
	progress func(text string)
	warning  func(summary, detail string)
	begun    time.Time

	saying   sync.Mutex
	last     string
	lastTime time.Time
}

// Invoke implements action.Action.
func (a *declared) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var config types.Object
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	client := a.hub.Client(&resp.Diagnostics)
	if client == nil {
		return
	}
	now := time.Now()
	r := &run{
		Values: config.Attributes(), hub: a.hub, client: client, begun: now, lastTime: now,
		progress: func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: text}) },
		warning:  resp.Diagnostics.AddWarning,
	}
	r.cluster, r.timeout = r.Text(clusterName), r.duration("timeout", a.timeout)
	if err := a.do(ctx, r); err != nil {
		doing, names := a.doing, []string{}
		for _, name := range a.to {
			names = append(names, r.Text(name))
		}
		if len(names) > 0 {
			doing += fmt.Sprintf(" %q", strings.Join(names, "/"))
		}
		hub.AddAPIError(&resp.Diagnostics, client, doing, err)
	}
}

// duration is the value of an attribute that is validated, or the standard.
func (r *run) duration(name string, standard time.Duration) time.Duration {
	if d, err := time.ParseDuration(r.Text(name)); err == nil {
		return d
	}
	return standard
}

// wait waits with the timeout of the action, and beside that looks at regular intervals;
// look may be nil. late is the error about a wait whose time is up, and leaves says what
// an interruption leaves.
func (r *run) wait(
	ctx context.Context, look func(context.Context), wait func(context.Context) error, late func() error, leaves string,
) error {
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := r.looking(waiting, look, wait)
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return late()
	}
	return interrupted(ctx, err, leaves)
}

// say shows a text, unless it was the last one.
func (r *run) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.saying.Lock()
	defer r.saying.Unlock()
	if text == r.last {
		return
	}
	r.last, r.lastTime = text, time.Now()
	r.progress(text)
}

func (r *run) warn(summary, format string, args ...any) {
	r.saying.Lock()
	defer r.saying.Unlock()
	r.warning(summary, fmt.Sprintf(format, args...))
}

// remind says that the wait goes on, when nothing was said for a while.
func (r *run) remind() {
	r.saying.Lock()
	defer r.saying.Unlock()
	now := time.Now()
	if r.last == "" || now.Sub(r.lastTime) < remindsEvery {
		return
	}
	r.lastTime = now
	r.progress(fmt.Sprintf("%s [%s]", strings.TrimSuffix(r.last, "."), now.Sub(r.begun).Round(time.Second)))
}

// looking runs wait, and beside it look at regular intervals. look may be nil.
func (r *run) looking(ctx context.Context, look func(context.Context), wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		ticker := time.NewTicker(looksEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if look != nil {
				look(ctx)
			}
			r.remind()
		}
	})
	return wait(ctx)
}

// refuse is the error of an operation that can't do what it was asked for.
func refuse(summary, format string, args ...any) error {
	return &hub.RefusalError{Err: errors.New(summary), Summary: summary, Detail: fmt.Sprintf(format, args...)}
}

// interrupted is the error that says what an interruption leaves. Other errors stay what they are.
func interrupted(ctx context.Context, err error, leaves string) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return refuse("Interrupted", "%s", leaves)
}

// find reads an object that has to exist. what is what it is called, and list an empty list
// of such objects. One in the namespace of the action's cluster is called by its name alone.
func (r *run) find(
	ctx context.Context, object kube.Object, list runtime.Object, what, namespace, name string,
) error {
	err := r.client.Get(ctx, object, namespace, name)
	if !kube.IsNotFound(err, name) {
		return err
	}
	of, in := "", kube.ListOptions{}
	if namespace != "" && namespace == r.cluster {
		of, in.Namespace = fmt.Sprintf(" of managed cluster %q", r.cluster), namespace
	} else if namespace != "" {
		name = namespace + "/" + name
	}
	names := r.names(ctx, list, in)
	advice := orElse(name, what, names)
	if of != "" && len(names) == 0 {
		advice = "The cluster has none at all."
	}
	return refuse(fmt.Sprintf("There is no %s %q%s", what, name, of), "The hub %s has none of this name. %s",
		r.client.Host(), advice)
}

// findCluster reads the action's cluster, which has to exist.
func (r *run) findCluster(ctx context.Context) (*clusterv1.ManagedCluster, error) {
	object := &clusterv1.ManagedCluster{}
	return object, r.find(ctx, object, &clusterv1.ManagedClusterList{}, "managed cluster", "", r.cluster)
}

// orElse says which of the names may have been meant, or which there are.
func orElse(name, what string, names []string) string {
	slices.Sort(names)
	switch near := suggest.Names(name, names); {
	case len(names) == 0:
		return fmt.Sprintf("The hub has no %s at all: is it the right hub?", what)
	case len(near) > 0:
		return fmt.Sprintf("Did you mean %s?", strings.Join(near, ", "))
	default:
		return fmt.Sprintf("There are: %s.", text.List(names, 10))
	}
}

// clusterNames are those of all clusters of the hub; none if they can't be listed.
func (r *run) clusterNames(ctx context.Context) []string {
	return r.names(ctx, &clusterv1.ManagedClusterList{}, kube.ListOptions{})
}

// names are those of objects, with their namespaces where these differ; none if they can't
// be listed.
func (r *run) names(ctx context.Context, list runtime.Object, options kube.ListOptions) []string {
	var names []string
	if r.client.List(ctx, list, options) != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(kube.Object); ok {
			names = append(names, strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), options.Namespace+"/"))
		}
		return nil
	})
	return names
}
