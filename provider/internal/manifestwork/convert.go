package manifestwork

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Between the model of a work's options and the API's types, there and back.

// Write writes the options into a work or a template.
func (o *Options) Write(spec *workv1.ManifestWorkSpec) {
	spec.DeleteOption = o.DeleteOption.option()
	spec.ManifestConfigs = ManifestConfigs(o.ManifestConfigs)
	spec.Executor = o.Executor.executor()
}

// OptionsOf are the options of a work or a template.
func OptionsOf(spec *workv1.ManifestWorkSpec) Options {
	return Options{
		DeleteOption:    deleteOptionModelOf(spec.DeleteOption),
		ManifestConfigs: ManifestConfigModels(spec.ManifestConfigs),
		Executor:        executorModelOf(spec.Executor),
	}
}

// Refresh brings the options up to date, and keeps their wording where it means the same.
func (o *Options) Refresh(live *workv1.ManifestWorkSpec) {
	var mine workv1.ManifestWorkSpec
	o.Write(&mine)
	now := OptionsOf(live)
	if !attribute.Same(mine.DeleteOption, live.DeleteOption) {
		o.DeleteOption = now.DeleteOption
	}
	if !attribute.Same(mine.ManifestConfigs, live.ManifestConfigs) {
		o.ManifestConfigs = now.ManifestConfigs
	}
	o.Executor = now.Executor
}

// option is the model in the API's terms; nil for nil.
func (m *DeleteOptionModel) option() *workv1.DeleteOption {
	if m == nil {
		return nil
	}
	option := &workv1.DeleteOption{
		PropagationPolicy:       workv1.DeletePropagationPolicyType(m.PropagationPolicy.ValueString()),
		TTLSecondsAfterFinished: m.TTL.ValueInt64Pointer(),
	}
	if len(m.OrphaningRules) > 0 {
		option.SelectivelyOrphan = &workv1.SelectivelyOrphan{}
	}
	for _, rule := range m.OrphaningRules {
		option.SelectivelyOrphan.OrphaningRules = append(option.SelectivelyOrphan.OrphaningRules, workv1.OrphaningRule(rule.identifier()))
	}
	return option
}

// deleteOptionModelOf is nil for nil.
func deleteOptionModelOf(option *workv1.DeleteOption) *DeleteOptionModel {
	if option == nil {
		return nil
	}
	m := &DeleteOptionModel{
		PropagationPolicy: attribute.OptionalString(string(option.PropagationPolicy)),
		TTL:               types.Int64PointerValue(option.TTLSecondsAfterFinished),
	}
	if option.SelectivelyOrphan != nil {
		for _, rule := range option.SelectivelyOrphan.OrphaningRules {
			m.OrphaningRules = append(m.OrphaningRules, identifierModelOf(workv1.ResourceIdentifier(rule)))
		}
	}
	return m
}

func (m identifierModel) identifier() workv1.ResourceIdentifier {
	return workv1.ResourceIdentifier{
		Group: m.Group.ValueString(), Resource: m.Resource.ValueString(), Name: m.Name.ValueString(), Namespace: m.Namespace.ValueString(),
	}
}

func identifierModelOf(id workv1.ResourceIdentifier) identifierModel {
	return identifierModel{
		Group: attribute.OptionalString(id.Group), Resource: types.StringValue(id.Resource), Name: types.StringValue(id.Name), Namespace: attribute.OptionalString(id.Namespace),
	}
}

// executor is the model in the API's terms; nil for nil.
func (m *ExecutorModel) executor() *workv1.ManifestWorkExecutor {
	if m == nil {
		return nil
	}
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: m.Namespace.ValueString(), Name: m.Name.ValueString()},
	}}
}

// executorModelOf is nil where there is no executor.
func executorModelOf(executor *workv1.ManifestWorkExecutor) *ExecutorModel {
	if executor == nil || executor.Subject.ServiceAccount == nil {
		return nil
	}
	account := executor.Subject.ServiceAccount
	return &ExecutorModel{Namespace: types.StringValue(account.Namespace), Name: types.StringValue(account.Name)}
}

// ManifestConfigs are models in the API's terms.
func ManifestConfigs(models []ManifestConfigModel) []workv1.ManifestConfigOption {
	var list []workv1.ManifestConfigOption
	for _, m := range models {
		config := workv1.ManifestConfigOption{
			ResourceIdentifier: m.ResourceIdentifier.identifier(),
			UpdateStrategy:     m.UpdateStrategy.strategy(),
			FeedbackScrapeType: workv1.FeedbackScrapeType(m.FeedbackScrapeType.ValueString()),
		}
		for _, rule := range m.FeedbackRules {
			feedback := workv1.FeedbackRule{Type: workv1.FeedbackType(rule.Type.ValueString())}
			for _, p := range rule.JSONPaths {
				feedback.JSONPaths = append(feedback.JSONPaths, workv1.JSONPath{Name: p.Name.ValueString(), Path: p.Path.ValueString(), Version: p.Version.ValueString()})
			}
			config.FeedbackRules = append(config.FeedbackRules, feedback)
		}
		for _, rule := range m.ConditionRules {
			config.ConditionRules = append(config.ConditionRules, workv1.ConditionRule{
				Condition:         rule.Condition.ValueString(),
				Type:              workv1.ConditionRuleType(rule.Type.ValueString()),
				CELExpressions:    attribute.Texts(rule.CELExpressions),
				Message:           rule.Message.ValueString(),
				MessageExpression: rule.MessageExpression.ValueString(),
			})
		}
		list = append(list, config)
	}
	return list
}

// ManifestConfigModels is nil when there are none.
func ManifestConfigModels(list []workv1.ManifestConfigOption) []ManifestConfigModel {
	var models []ManifestConfigModel
	for _, config := range list {
		m := ManifestConfigModel{
			ResourceIdentifier: identifierModelOf(config.ResourceIdentifier),
			UpdateStrategy:     updateStrategyModelOf(config.UpdateStrategy),
			FeedbackScrapeType: attribute.OptionalString(string(config.FeedbackScrapeType)),
		}
		for _, rule := range config.FeedbackRules {
			feedback := feedbackRuleModel{Type: types.StringValue(string(rule.Type))}
			for _, p := range rule.JSONPaths {
				feedback.JSONPaths = append(feedback.JSONPaths, jsonPathModel{Name: types.StringValue(p.Name), Path: types.StringValue(p.Path), Version: attribute.OptionalString(p.Version)})
			}
			m.FeedbackRules = append(m.FeedbackRules, feedback)
		}
		for _, rule := range config.ConditionRules {
			m.ConditionRules = append(m.ConditionRules, conditionRuleModel{
				Condition:         types.StringValue(rule.Condition),
				Type:              types.StringValue(string(rule.Type)),
				CELExpressions:    attribute.TextValues(rule.CELExpressions),
				Message:           attribute.OptionalString(rule.Message),
				MessageExpression: attribute.OptionalString(rule.MessageExpression),
			})
		}
		models = append(models, m)
	}
	return models
}

func (m *updateStrategyModel) strategy() *workv1.UpdateStrategy {
	if m == nil {
		return nil
	}
	strategy := &workv1.UpdateStrategy{Type: workv1.UpdateStrategyType(m.Type.ValueString())}
	if m.ServerSideApply == nil {
		return strategy
	}
	strategy.ServerSideApply = &workv1.ServerSideApplyConfig{
		Force:        m.ServerSideApply.Force.ValueBool(),
		FieldManager: m.ServerSideApply.FieldManager.ValueString(),
	}
	for _, f := range m.ServerSideApply.IgnoreFields {
		strategy.ServerSideApply.IgnoreFields = append(strategy.ServerSideApply.IgnoreFields, workv1.IgnoreField{
			Condition:         workv1.IgnoreFieldsCondition(f.Condition.ValueString()),
			JSONPaths:         attribute.Texts(f.JSONPaths),
			JSONPointers:      attribute.Texts(f.JSONPointers),
			JQPathExpressions: attribute.Texts(f.JQPathExpressions),
		})
	}
	return strategy
}

func updateStrategyModelOf(strategy *workv1.UpdateStrategy) *updateStrategyModel {
	if strategy == nil {
		return nil
	}
	m := &updateStrategyModel{Type: types.StringValue(string(strategy.Type))}
	if strategy.ServerSideApply == nil {
		return m
	}
	m.ServerSideApply = &serverSideApplyModel{
		Force:        types.BoolValue(strategy.ServerSideApply.Force),
		FieldManager: attribute.OptionalString(strategy.ServerSideApply.FieldManager),
	}
	for _, f := range strategy.ServerSideApply.IgnoreFields {
		m.ServerSideApply.IgnoreFields = append(m.ServerSideApply.IgnoreFields, ignoreFieldModel{
			Condition:         attribute.OptionalString(string(f.Condition)),
			JSONPaths:         attribute.TextValues(f.JSONPaths),
			JSONPointers:      attribute.TextValues(f.JSONPointers),
			JQPathExpressions: attribute.TextValues(f.JQPathExpressions),
		})
	}
	return m
}
