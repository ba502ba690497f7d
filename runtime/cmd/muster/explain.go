package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain/facts"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// explained is a kind of object that "muster explain" explains.
type explained struct {
	// name is the subcommand, and noun what error messages call such an object.
	name, noun string
	aliases    []string
	// in is what the part before the slash of NAME is: CLUSTER, NAMESPACE, or "" for
	// objects without a namespace.
	in      string
	short   string
	example string
	// explain reads and explains one object.
	explain func(*facts.Reader, types.NamespacedName) (explain.Explanation, error)
	kind    schema.GroupVersionKind
}

func explainedKinds() []explained {
	return []explained{
		{
			name: "cluster", noun: "managed cluster", short: "Explain why a cluster is, or is not, available",
			example: "  muster explain cluster paris", explain: (*facts.Reader).Cluster,
			kind: clusterv1.GroupVersion.WithKind("ManagedCluster"),
		},
		{
			name: "work", noun: "ManifestWork", in: "CLUSTER", short: "Explain why a work is, or is not, applied " +
				"and available",
			example: "  muster explain work paris/web\n  muster explain work web -n paris",
			explain: (*facts.Reader).Work, kind: workv1.GroupVersion.WithKind("ManifestWork"),
		},
		{
			name: "placement", noun: "Placement", in: "NAMESPACE", short: "Explain which clusters a placement " +
				"selects, and why not the others",
			example: "  muster explain placement default/production", explain: (*facts.Reader).Placement,
			kind: clusterv1beta1.GroupVersion.WithKind("Placement"),
		},
		{
			name: "rollout", noun: "ManifestWorkReplicaSet", in: "NAMESPACE", aliases: []string{"replicaset"},
			short:   "Explain how far a replica set is, and what it waits for",
			example: "  muster explain rollout shop/web", explain: (*facts.Reader).Rollout,
			kind: workv1alpha1.GroupVersion.WithKind("ManifestWorkReplicaSet"),
		},
		{
			name: "addon", noun: "add-on", in: "CLUSTER", short: "Explain why an add-on is, or is not, available " +
				"in a cluster",
			example: "  muster explain addon paris/metrics", explain: (*facts.Reader).AddOn,
			kind: addonv1alpha1.GroupVersion.WithKind("ManagedClusterAddOn"),
		},
		{
			name: "cloud", noun: "logical cloud", in: "NAMESPACE", short: "Explain which clusters a logical cloud " +
				"lacks, and who has access",
			example: "  muster explain cloud team-a/prod", explain: (*facts.Reader).Cloud,
			kind: musterv1alpha1.GroupVersion.WithKind("LogicalCloud"),
		},
		{
			name: "import", noun: "cluster import", short: "Explain how far the hub is with the agent of a cluster",
			example: "  muster explain import paris", explain: (*facts.Reader).Import,
			kind: musterv1alpha1.GroupVersion.WithKind("ClusterImport"),
		},
	}
}

func newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain why something of a fleet is in its state, and what to do next",
		Long: `Explains why a cluster, work, placement, rollout, add-on, logical cloud or cluster import
is in its state: what is wrong or awaited, by which conditions and events that is
known, and what to do next, with the commands.

It reads with the rights of the kubeconfig and changes nothing. What may not be read is
named, and left out.`,
		Example: `  muster explain cluster paris
  muster explain work paris/web --kubeconfig hub.kubeconfig
  muster explain rollout shop/web -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, k := range explainedKinds() {
		cmd.AddCommand(k.command())
	}
	return cmd
}

func (k explained) command() *cobra.Command {
	var at hubFlags
	var format, namespace string
	name := "NAME"
	if k.in != "" {
		name = k.in + "/NAME"
	}
	cmd := &cobra.Command{
		Use: k.name + " " + name, Aliases: k.aliases, Short: k.short, Example: k.example,
		Long: k.short + ".\n\nThe first line says how it is. Below it are the causes, the worst first, each with " +
			"what is known\n" +
			"about it and with what to do next.",
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, err := at.client()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := facts.NewReader(cmd.Context(), c).Names(k.kind, namespace)
			if namespace != "" {
				for i := range names {
					names[i] = strings.TrimPrefix(names[i], namespace+"/")
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != formatText && format != formatJSON {
				return fmt.Errorf("--output %q is no format: use %s or %s", format, formatText, formatJSON)
			}
			key, err := k.parse(args[0], namespace)
			if err != nil {
				return err
			}
			c, err := at.client()
			if err != nil {
				return err
			}
			e, err := k.run(facts.NewReader(cmd.Context(), c), key)
			if err != nil {
				return err
			}
			at.complete(&e)
			return printExplanation(cmd.OutOrStdout(), e, format)
		},
	}
	at.add(cmd)
	if k.in != "" {
		cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the "+strings.ToLower(k.in)+", when NAME is "+
			"given alone")
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "format of the output: text or json")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{formatText, formatJSON}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// formatText is what a person reads.
const formatText = "text"

// parse reads the name of an object.
func (k explained) parse(arg, namespace string) (types.NamespacedName, error) {
	before, name, both := strings.Cut(arg, "/")
	switch {
	case k.in == "" && !both && arg != "":
		return types.NamespacedName{Name: arg}, nil
	case k.in == "":
		return types.NamespacedName{}, fmt.Errorf("%q does not name a %s: write its name, as in paris", arg, k.noun)
	case both && before != "" && name != "" && (namespace == "" || namespace == before):
		return types.NamespacedName{Namespace: before, Name: name}, nil
	case both && namespace != "" && namespace != before:
		return types.NamespacedName{}, fmt.Errorf("%q and --namespace %s contradict each other: leave one of them "+
			"out", arg, namespace)
	case !both && namespace != "" && arg != "":
		return types.NamespacedName{Namespace: namespace, Name: arg}, nil
	}
	return types.NamespacedName{}, fmt.Errorf("%q does not say which %s: write %s/NAME, or name the %s with -n", arg,
		k.noun, k.in,
		strings.ToLower(k.in))
}

// run explains an object, or says which ones there are.
func (k explained) run(r *facts.Reader, key types.NamespacedName) (explain.Explanation, error) {
	e, err := k.explain(r, key)
	if err == nil {
		e.Hidden = r.Hidden
		return e, nil
	}
	if !r.Missing {
		return e, err
	}
	said := fmt.Sprintf("there is no %s %s on the hub", k.noun, strings.TrimPrefix(key.String(), "/"))
	names := r.Names(k.kind, "")
	asked := strings.TrimPrefix(key.String(), "/")
	near := suggest.Names(asked, names)
	if key.Namespace != "" { // the same name elsewhere is as near
		for _, n := range names {
			if strings.HasSuffix(n, "/"+key.Name) && !slices.Contains(near, n) && len(near) < 3 {
				near = append(near, n)
			}
		}
	}
	switch {
	case len(near) > 0:
		return e, fmt.Errorf("%s: did you mean %s?", said, strings.Join(near, " or "))
	case len(names) > 0:
		return e, fmt.Errorf("%s: there are %s", said, named(names))
	case len(r.Hidden) > 0:
		return e, fmt.Errorf("%s; %s", said, r.Hidden[0])
	}
	return e, fmt.Errorf("%s: it has none at all", said)
}

// complete adds to commands by which kubeconfig they reach their cluster.
func (f *hubFlags) complete(e *explain.Explanation) {
	kubeconfig, err := f.path()
	if err != nil {
		return
	}
	for i := range e.Causes {
		for j := range e.Causes[i].Next {
			s := &e.Causes[i].Next[j]
			program, _, _ := strings.Cut(s.Command, " ")
			switch {
			case s.Command == "":
			case s.In != "":
				if path := fleet.ClusterKubeconfig(f.dataDir, s.In); f.kubeconfig == "" && exists(path) {
					s.Command = withFlags(s.Command, " --kubeconfig "+path)
				}
			case program == "muster":
				s.Command = withFlags(s.Command, f.flags())
			default:
				flags := " --kubeconfig " + kubeconfig
				if f.context != "" {
					flags += " --context " + f.context
				}
				s.Command = withFlags(s.Command, flags)
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// flags are those with which another command of this program reaches the same hub.
func (f *hubFlags) flags() (flags string) {
	switch {
	case f.kubeconfig != "":
		flags += " --kubeconfig " + f.kubeconfig
	case f.dataDir != fleetDir:
		flags += " --data-dir " + f.dataDir
	}
	if f.context != "" {
		flags += " --context " + f.context
	}
	return flags
}

// withFlags adds flags to a command, before what it does with its output.
func withFlags(command, flags string) string {
	program, redirection, redirected := strings.Cut(command, " > ")
	if !redirected {
		return command + flags
	}
	return program + flags + " > " + redirection
}

func printExplanation(out io.Writer, e explain.Explanation, format string) error {
	if format == formatJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(e)
	}
	var b strings.Builder
	line := func(indent int, text string) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", indent), cell(text))
	}
	line(0, e.State)
	for _, c := range e.Causes {
		b.WriteByte('\n')
		summary := c.Summary
		if c.Level != explain.OK {
			summary = strings.ToUpper(string(c.Level)) + ": " + summary
		}
		line(0, summary)
		for _, evidence := range c.Evidence {
			line(2, "- "+evidence)
		}
		for _, s := range c.Next {
			do := "  > " + s.Do
			if s.In != "" {
				do += ", in the cluster " + s.In
			}
			if s.Command != "" {
				do += ":"
			}
			line(0, do)
			if s.Command != "" {
				line(6, s.Command)
			}
		}
	}
	for i, hidden := range e.Hidden {
		if i == 0 {
			b.WriteByte('\n')
		}
		line(0, hidden)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
