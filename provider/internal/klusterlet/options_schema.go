package klusterlet

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// AgentAttributes are the options of an agent, without its namespace.
func AgentAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"image": schema.StringAttribute{
			MarkdownDescription: "Container image of the agent. If omitted, the image of the version that installs " +
				"it, so that an upgrade of the provider or of the hub upgrades the agents.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"image_pull_policy": schema.StringAttribute{
			MarkdownDescription: "When the image is pulled: `Always`, `IfNotPresent` or `Never`. If omitted, as " +
				"Kubernetes does by default.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf("Always", "IfNotPresent", "Never")},
		},
		"image_pull_secrets": texts("Names of Secrets in the agent's namespace with which the image is pulled. They " +
			"have to be there, or to be created: the agent is not given them."),
		"args": texts("Further arguments of `muster agent`, such as `-v=2`. " +
			"Those that the other attributes set, such as `--cluster-name`, are refused."),
		"labels":      textMap("Labels of all objects of the agent, its pods included."),
		"annotations": textMap("Annotations of the agent's pods, for example for a service mesh or a scraper."),
		"env": textMap("Environment variables of the agent by name, for example `HTTPS_PROXY` and `NO_PROXY` for a " +
			"hub behind a proxy. " +
			"The cluster's own API server is always reached without the proxy. Values are in the state and in the " +
			"cluster in clear: don't put secrets here."),
		"node_selector": NodeSelector(),
		"tolerations":   Tolerations(),
		"affinity":      affinity(),
		"resources": Resources("Resources of the agent's container. If omitted, requests of 10m CPU and 64Mi memory, "+
			"and a limit of 512Mi memory. If set, nothing of this is added.",
			false),
		"host_network": schema.BoolAttribute{
			MarkdownDescription: "Whether the agent runs in the node's network, for clusters whose own network comes " +
				"later, with the works. Then it listens on the node's port 8000, and an update stops the agent " +
				"before it starts the next one. Defaults to `false`.",
			Optional: true,
		},
		"priority_class_name": schema.StringAttribute{
			MarkdownDescription: "PriorityClass of the agent's pods, such as `system-cluster-critical`.",
			Optional:            true,
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"user_access": schema.BoolAttribute{
			MarkdownDescription: "Whether users of the hub may have access to the cluster through logical clouds. " +
				"It gives the agent the right to approve client certificates of the cluster, which is as good as any " +
				"right there. Defaults to `false`.",
			Optional: true,
		},
	}
}

// attributeTypes are the types of Attributes.
func attributeTypes() map[string]attr.Type {
	found := map[string]attr.Type{}
	for name, attribute := range AgentAttributes() {
		found[name] = attribute.GetType()
	}
	return found
}

func texts(description string) schema.ListAttribute {
	return schema.ListAttribute{MarkdownDescription: description, Optional: true, ElementType: types.StringType}
}

func textMap(description string) schema.MapAttribute {
	return schema.MapAttribute{MarkdownDescription: description, Optional: true, ElementType: types.StringType}
}

func text(description string) schema.StringAttribute {
	return schema.StringAttribute{MarkdownDescription: description, Optional: true}
}

// NodeSelector is the attribute node_selector.
func NodeSelector() schema.MapAttribute {
	return textMap("Labels of the nodes on which the agent may run.")
}

// Resources is the attribute resources.
func Resources(description string, required bool) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Required:            required, Optional: !required,
		Attributes: map[string]schema.Attribute{
			"requests": textMap("What the node has to have free, such as `{ cpu = \"50m\", memory = \"128Mi\" }`."),
			"limits":   textMap("What the agent may use at most."),
		},
	}
}

// Tolerations is the attribute tolerations.
func Tolerations() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: "Taints of nodes that the agent tolerates.",
		Optional:            true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key": text("Key of the taint. Without it, with the operator `Exists`, every taint is " +
				"tolerated."),
			"operator": text("`Equal`, the default, or `Exists`."),
			"value":    text("Value of the taint, with the operator `Equal`."),
			"effect":   text("`NoSchedule`, `PreferNoSchedule` or `NoExecute`. If omitted, all."),
			"toleration_seconds": schema.Int64Attribute{MarkdownDescription: "How long a taint with the effect " +
				"`NoExecute` is tolerated. If omitted, for good.", Optional: true},
		}},
	}
}

func affinity() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Which nodes the agent needs or prefers, as in a pod's `affinity`.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"node_affinity": schema.SingleNestedAttribute{
				MarkdownDescription: "Rules about nodes.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"required_during_scheduling_ignored_during_execution": schema.SingleNestedAttribute{
						MarkdownDescription: "What nodes have to be like.",
						Optional:            true,
						Attributes: map[string]schema.Attribute{
							"node_selector_terms": schema.ListNestedAttribute{
								MarkdownDescription: "Terms: a node has to meet one of them at least.",
								Required:            true,
								NestedObject:        schema.NestedAttributeObject{Attributes: nodeTerm()},
							},
						},
					},
					"preferred_during_scheduling_ignored_during_execution": schema.ListNestedAttribute{
						MarkdownDescription: "What nodes had better be like.",
						Optional:            true,
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"weight": schema.Int64Attribute{MarkdownDescription: "How much it counts, from " +
								"1 to 100.", Required: true},
							"preference": schema.SingleNestedAttribute{
								MarkdownDescription: "Term that a node had " +
									"better meet.", Required: true, Attributes: nodeTerm(),
							},
						}},
					},
				},
			},
			"pod_affinity":      podAffinity("Pods near which the agent runs."),
			"pod_anti_affinity": podAffinity("Pods from which the agent keeps away."),
		},
	}
}

func nodeTerm() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"match_expressions": requirements("Requirements of the node's labels."),
		"match_fields":      requirements("Requirements of the node's fields: of `metadata.name`."),
	}
}

func requirements(description string) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"key": schema.StringAttribute{MarkdownDescription: "What is compared.", Required: true},
			"operator": schema.StringAttribute{MarkdownDescription: "`In`, `NotIn`, `Exists`, `DoesNotExist`, and " +
				"for nodes `Gt` and `Lt`.", Required: true},
			"values": texts("What it is compared with."),
		}},
	}
}

func podAffinity(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"required_during_scheduling_ignored_during_execution": schema.ListNestedAttribute{
				MarkdownDescription: "What has to be.",
				Optional:            true,
				NestedObject:        schema.NestedAttributeObject{Attributes: podTerm()},
			},
			"preferred_during_scheduling_ignored_during_execution": schema.ListNestedAttribute{
				MarkdownDescription: "What had better be.",
				Optional:            true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"weight": schema.Int64Attribute{MarkdownDescription: "How much it counts, from " +
						"1 to 100.", Required: true},
					"pod_affinity_term": schema.SingleNestedAttribute{
						MarkdownDescription: "Which pods, and what counts " +
							"as near.", Required: true, Attributes: podTerm(),
					},
				}},
			},
		},
	}
}

func podTerm() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"topology_key": schema.StringAttribute{MarkdownDescription: "Label of nodes within which pods count as " +
			"near, such as `kubernetes.io/hostname`.", Required: true},
		"label_selector":     selector("Which pods."),
		"namespace_selector": selector("In which namespaces, by their labels."),
		"namespaces": texts("In which namespaces, by their names. If omitted, and without " +
			"`namespace_selector`, in the agent's own."),
	}
}

func selector(description string) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: description,
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"match_labels":      textMap("Labels that have to be there."),
			"match_expressions": requirements("Requirements of labels."),
		},
	}
}
