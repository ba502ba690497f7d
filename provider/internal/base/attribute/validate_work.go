package attribute

import (
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
)

// ValidJSONPath admits the JSONPaths that a hub accepts in a work.
func ValidJSONPath() validator.String {
	return validPath("a JSONPath with at most one ..", workcheck.JSONPath)
}

// ValidJQPath admits the jq paths that a hub accepts in a work.
func ValidJQPath() validator.String { return validPath("a jq expression that is a path", workcheck.JQ) }

// validPath reads a path while planning: the hub refuses a work with one that
// can't be read, or that costs too much, and an upstream hub's agent reports it.
func validPath(description string, check func(string) error) validator.String {
	return ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if err := check(text); err != nil {
			return "Invalid path", fmt.Sprintf("%s: %s.", Place(at), err)
		}
		return "", ""
	})
}

// ValidCondition accepts CEL expressions that can be compiled into a condition.
func ValidCondition() validator.String {
	return validExpression("an expression in CEL over object", sync.OnceValues(expression.ForConditions),
		"the variable object, such as object.status.readyReplicas == object.spec.replicas")
}

// ValidMessage admits expressions in CEL that yield the message of a condition.
func ValidMessage() validator.String {
	return validExpression("an expression in CEL over object and result", sync.OnceValues(expression.ForMessages),
		"the variables object and result, such as result ? \"done\" : \"busy\"")
}

// validExpression compiles an expression while planning: what is wrong with it
// would otherwise only show in the conditions of works. sees says which variables
// there are.
func validExpression(description string, env func() (*expression.Env, error), sees string) validator.String {
	return ValidText(description, func(at path.Path, text string) (summary, detail string) {
		e, err := env()
		if err == nil {
			err = e.Check(text)
		}
		if err != nil {
			return "Invalid expression", fmt.Sprintf("%s can't be evaluated on any object: %s\n\nIt has to be an "+
				"expression in CEL over %s.", Place(at), err, sees)
		}
		return "", ""
	})
}
