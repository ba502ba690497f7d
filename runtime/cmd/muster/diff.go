package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/preview"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// How "muster diff" ends, as "kubectl diff" does.
const (
	exitChanges = 1
	exitFailure = 2
)

// diffOptions are the flags of "muster diff".
type diffOptions struct {
	at         hubFlags
	files      []string
	clusters   []string
	placements []string
	work       string
	executor   string
	serverSide bool
	timeout    time.Duration
	noColor    bool
}

func newDiffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff -f FILE|DIRECTORY [--cluster CLUSTER | --placement NAMESPACE/NAME]",
		Short: "Preview what manifests would do in clusters, without doing it",
		Long: `Asks the agents of clusters what manifests would do there, and shows for each object
what would be created, changed or deleted, and who refuses what. Agents find out by dry
runs, with the rights of the executor: nothing is changed in the clusters, and defaults,
policies, immutable fields and missing kinds count as in a real apply.

The files hold Kubernetes objects, for the clusters that are named or that a placement
selects; or ManifestWorks and ManifestWorkReplicaSets, which say themselves for which
clusters they are. With --work the objects count as the new content of that work: what
it holds and the files do not is shown as deleted.

It needs the rights that the works themselves would need. Values of Secrets, and what is
called a password or the like, are masked.

The exit status is 0 when nothing would change, 1 when something would, and 2 when a
cluster refuses something or does not answer, or the command fails.`,
		Example: `  muster diff -f shop/ --cluster paris --work shop
  muster diff -f shop/ --placement shop/production --kubeconfig hub.kubeconfig
  muster diff -f replicaset.yaml
  kustomize build | muster diff -f - --cluster paris,lyon`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			var exit cli.ExitError
			if err == nil || errors.As(err, &exit) {
				return err
			}
			return &cli.FailureError{Status: exitFailure, Err: err}
		},
	}
	o.at.add(cmd)
	f := cmd.Flags()
	f.StringSliceVarP(&o.files, "filename", "f", nil, "file or directory with manifests, or - for the standard input; "+
		"of a directory, and those below it, the files *.yaml, *.yml and *.json")
	f.StringSliceVar(&o.clusters, "cluster", nil, "clusters to ask")
	f.StringSliceVar(&o.placements, "placement", nil, "ask the clusters that this placement selects, as NAMESPACE/NAME")
	f.StringVar(&o.work, "work", "", "name of the work that the objects are for (default one that is not there yet)")
	f.StringVar(&o.executor, "executor", "", "service account in the clusters with whose rights the objects are "+
		"applied, as NAMESPACE/NAME (default the agent's own rights)")
	f.BoolVar(&o.serverSide, "server-side", false, "apply the objects by server-side apply instead of replacing them")
	f.DurationVar(&o.timeout, "timeout", preview.DefaultTimeout, "how long each cluster has to answer")
	f.BoolVar(&o.noColor, "no-color", false, "no colours, as without a terminal, and with NO_COLOR in the environment")
	return cmd
}

func (o diffOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if len(o.files) == 0 {
		return errors.New("say with -f where the manifests are: a file, a directory, or - for the standard input")
	}
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout is %s: give a time above 0, such as 10s", o.timeout)
	}
	documents, err := readDocuments(o.files, in)
	if err != nil {
		return err
	}
	hub, err := o.at.client()
	if err != nil {
		return err
	}
	if err := needsPreviews(ctx, hub); err != nil {
		return err
	}
	questions, err := o.questions(ctx, hub, documents)
	if err != nil {
		return err
	}
	answers, err := preview.Ask(ctx, previewHub{hub}, questions, o.timeout)
	if err != nil {
		return err
	}
	r := preview.Summarize(answers)
	for _, line := range append(r.Lines(o.paint(out)), r.Summary()) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	problems := r.Only(true)
	switch {
	case problems.HasChanges() || len(problems.Missing) > 0:
		return cli.ExitError(exitFailure)
	case r.HasChanges():
		return cli.ExitError(exitChanges)
	}
	return nil
}

// needsPreviews fails at a hub that has no previews.
func needsPreviews(ctx context.Context, hub client.Client) error {
	info := &corev1.ConfigMap{}
	err := hub.Get(ctx, types.NamespacedName{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("ask the hub what it can do: %w", err)
	}
	if !hubinfo.Has(info.Data, hubinfo.WorkPreview) {
		return errors.New(preview.NotServed)
	}
	return nil
}

// document is one of the manifests.
type document struct {
	where  string
	object *unstructured.Unstructured
}

func (d document) isOf(kind string) bool {
	gvk := d.object.GroupVersionKind()
	return gvk.Group == work.GroupName && gvk.Kind == kind
}

func (d document) isOverride() bool {
	gvk := d.object.GroupVersionKind()
	return gvk.Group == muster.GroupName && gvk.Kind == "WorkOverride"
}

// readDocuments reads the manifests in files and directories.
func readDocuments(names []string, in io.Reader) ([]document, error) {
	var all []document
	for _, name := range names {
		if name == "-" {
			more, err := split("the standard input", in)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				return nil
			case path != name && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			more, err := split(path, bytes.NewReader(content))
			all = append(all, more...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the manifests of -f %s: %w", name, err)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no manifests in %s", strings.Join(names, ", "))
	}
	return all, nil
}

// split reads the documents of a file, and the items of lists.
func split(where string, from io.Reader) ([]document, error) {
	var all []document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(from))
	for i := 1; ; i++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		at := fmt.Sprintf("%s, document %d", where, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not YAML: %w", at, err)
		}
		if string(data) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("%s is not a Kubernetes object: %w", at, err)
		}
		if !o.IsList() {
			all = append(all, document{at, o})
			continue
		}
		if err := o.EachListItem(func(item runtime.Object) error {
			all = append(all, document{at, item.(*unstructured.Unstructured)})
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
}

// questions are one for each work and cluster.
func (o diffOptions) questions(
	ctx context.Context,
	hub client.Client,
	documents []document,
) ([]preview.Question, error) {
	var plain, overrides []document
	var questions []preview.Question
	given := map[types.NamespacedName]*v1alpha1.WorkOverride{}
	for _, d := range documents {
		if d.isOverride() {
			o := &v1alpha1.WorkOverride{}
			if err := d.into(o); err != nil {
				return nil, err
			}
			given[client.ObjectKeyFromObject(o)] = o
		}
	}
	for _, d := range documents {
		switch {
		case d.isOverride():
			overrides = append(overrides, d) // for the replica sets that name it
		case d.isOf("ManifestWork"):
			mw := &workv1.ManifestWork{}
			if err := d.into(mw); err != nil {
				return nil, err
			}
			if mw.Namespace == "" {
				return nil, fmt.Errorf(
					"%s: the ManifestWork %s has no metadata.namespace: name its cluster there",
					d.where,
					mw.Name,
				)
			}
			questions = append(questions, preview.Question{Cluster: mw.Namespace, Work: mw.Name, Spec: &mw.Spec})
		case d.isOf("ManifestWorkReplicaSet"):
			set := &workv1alpha1.ManifestWorkReplicaSet{}
			if err := d.into(set); err != nil {
				return nil, err
			}
			more, err := ofReplicaSet(ctx, hub, set, given)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.where, err)
			}
			questions = append(questions, more...)
		default:
			plain = append(plain, d)
		}
	}
	if len(questions) > 0 {
		if len(plain) > 0 {
			return nil, fmt.Errorf(
				"%s is a %s, beside works and replica sets in the same files: give either works, or the "+
					"objects of one",
				plain[0].where,
				plain[0].object.GetKind(),
			)
		}
		if o.work+o.executor != "" || len(o.clusters)+len(o.placements) > 0 || o.serverSide {
			return nil, errors.New(
				"--cluster, --placement, --work, --executor and --server-side are for plain objects: " +
					"a work, or a replica set, says all that itself",
			)
		}
		return questions, nil
	}
	// Without a replica set, they are objects for a cluster that is a hub itself.
	return o.ofObjects(ctx, hub, append(plain, overrides...))
}

func (d document) into(object client.Object) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(d.object.Object, object,
		true); err != nil {
		return fmt.Errorf("%s: the %s %s can't be read: %w", d.where, d.object.GetKind(), d.object.GetName(), err)
	}
	return nil
}

// ofObjects asks about plain objects.
func (o diffOptions) ofObjects(ctx context.Context, hub client.Client, plain []document) ([]preview.Question, error) {
	clusters := o.clusters
	for _, p := range o.placements {
		namespace, name, ok := strings.Cut(p, "/")
		if !ok {
			return nil, fmt.Errorf(
				"--placement %q does not name a placement: write NAMESPACE/NAME, as in shop/production",
				p,
			)
		}
		selected, err := selectedBy(ctx, hub, namespace, name)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, selected...)
	}
	if len(clusters) == 0 {
		return nil, errors.New("say with --cluster or --placement which clusters the objects are for")
	}
	spec := &workv1.ManifestWorkSpec{}
	if o.executor != "" {
		namespace, name, ok := strings.Cut(o.executor, "/")
		if !ok {
			return nil, fmt.Errorf("--executor %q does not name a service account: write NAMESPACE/NAME", o.executor)
		}
		spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type:           workv1.ExecutorSubjectTypeServiceAccount,
			ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
		}}
	}
	if o.serverSide {
		everything := workv1.ResourceIdentifier{Group: "*", Resource: "*", Namespace: "*", Name: "*"}
		spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: everything,
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
		}}
	}
	for _, d := range plain {
		data, err := json.Marshal(d.object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.where, err)
		}
		spec.Workload.Manifests = append(
			spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: data}},
		)
	}
	name := o.work
	if name == "" {
		name = "muster-diff"
	}
	var questions []preview.Question
	for _, c := range clusters {
		if !slices.ContainsFunc(questions, func(q preview.Question) bool { return q.Cluster == c }) {
			questions = append(questions, preview.Question{Cluster: c, Work: name, Spec: spec})
		}
	}
	return questions, nil
}

// selectedBy are the clusters that a placement has selected.
func selectedBy(ctx context.Context, hub client.Client, namespace, name string) ([]string, error) {
	p := &clusterv1beta1.Placement{}
	if err := hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, p); err != nil {
		return nil, fmt.Errorf("read the placement %s/%s: %w", namespace, name, err)
	}
	list := &clusterv1beta1.PlacementDecisionList{}
	if err := hub.List(ctx, list, client.InNamespace(namespace),
		client.MatchingLabels{cluster.PlacementLabel: name}); err != nil {
		return nil, fmt.Errorf("list the decisions of the placement %s/%s: %w", namespace, name, err)
	}
	names := preview.Selected(list.Items)
	if len(names) == 0 {
		return nil, fmt.Errorf("the placement %s/%s selects no clusters: see \"muster explain placement %[1]s/%[2]s\"",
			namespace, name)
	}
	return names, nil
}

// ofReplicaSet asks about the works of a replica set. The WorkOverrides that are given take
// the place of those on the hub.
func ofReplicaSet(
	ctx context.Context,
	hub client.Client,
	set *workv1alpha1.ManifestWorkReplicaSet,
	given map[types.NamespacedName]*v1alpha1.WorkOverride,
) ([]preview.Question, error) {
	works := &workv1.ManifestWorkList{}
	label := client.MatchingLabels{work.ReplicaSetLabel: set.Namespace + "." + set.Name}
	if err := hub.List(ctx, works, label); err != nil {
		return nil, fmt.Errorf("list the works of the replica set %s/%s: %w", set.Namespace, set.Name, err)
	}
	own, err := override.Of(set, func(name string) (*v1alpha1.WorkOverride, error) {
		key := types.NamespacedName{Namespace: set.Namespace, Name: name}
		if o := given[key]; o != nil {
			return o, nil
		}
		o := &v1alpha1.WorkOverride{}
		return o, hub.Get(ctx, key, o)
	})
	if err != nil {
		return nil, fmt.Errorf("the override of the replica set %s/%s: %w", set.Namespace, set.Name, err)
	}
	var decided []preview.Decided
	for _, ref := range set.Spec.PlacementRefs {
		clusters, err := selectedBy(ctx, hub, set.Namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		decided = append(decided, preview.Decided{Placement: ref.Name, Clusters: clusters})
	}
	return preview.OfReplicaSet(set, own, decided, works.Items), nil
}

// previewHub reaches the hub with the rights of a kubeconfig.
type previewHub struct{ client.WithWatch }

func (h previewHub) Cluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{}
	return mc, h.Get(ctx, types.NamespacedName{Name: name}, mc)
}

func (h previewHub) Create(ctx context.Context, p *v1alpha1.WorkPreview) error {
	return h.WithWatch.Create(ctx, p)
}

func (h previewHub) Delete(ctx context.Context, p *v1alpha1.WorkPreview) error {
	return h.WithWatch.Delete(ctx, p)
}

// Await watches from the version that was created.
func (h previewHub) Await(ctx context.Context, p *v1alpha1.WorkPreview, done func() bool) error {
	version := p.ResourceVersion
	for {
		w, err := h.Watch(ctx, &v1alpha1.WorkPreviewList{}, client.InNamespace(p.Namespace),
			client.MatchingFields{"metadata.name": p.Name},
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			return err
		}
		for event := range w.ResultChan() {
			now, ok := event.Object.(*v1alpha1.WorkPreview)
			if !ok || event.Type == "DELETED" {
				w.Stop()
				return errors.New("the preview was deleted before there was an answer")
			}
			*p = *now
			if version = p.ResourceVersion; done() {
				w.Stop()
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// paint gives lines the colours of their outcomes on a terminal.
func (o diffOptions) paint(out io.Writer) func(v1alpha1.PreviewOutcome, string) string {
	file, isFile := out.(*os.File)
	if o.noColor || os.Getenv("NO_COLOR") != "" || !isFile || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return colored
}

func colored(outcome v1alpha1.PreviewOutcome, line string) string {
	const red, green, yellow, magenta = "31", "32", "33", "35"
	colour := map[v1alpha1.PreviewOutcome]string{
		v1alpha1.PreviewCreate: green, v1alpha1.PreviewChange: yellow, v1alpha1.PreviewRecreate: yellow,
		v1alpha1.PreviewDelete: red,
	}[outcome]
	if colour == "" {
		colour = magenta
	}
	return "\x1b[" + colour + "m" + line + "\x1b[0m"
}
