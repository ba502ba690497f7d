package placement

import (
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/parser"
)

// clusterVariable is the name of the cluster in expressions.
const clusterVariable = "managedCluster"

// expressionReads is what can be said of an expression without evaluating it.
type expressionReads struct {
	// fields are the fields that it reads of the cluster, each as the names on the
	// way to it. Those that has() asks about are left out.
	fields [][]string
	// value is the field that is the expression's value; nil when it is another
	// value.
	value []string
	// kind is the type of the value; dyn when only an evaluation tells.
	kind string
}

// readsOf looks at an expression. ok is false for one that can't be parsed.
func readsOf(text string) (reads expressionReads, ok bool) {
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true))
	if err != nil {
		return expressionReads{}, false
	}
	parsed, problems := p.Parse(common.NewTextSource(text))
	if len(problems.GetErrors()) > 0 {
		return expressionReads{}, false
	}
	var asked [][]string
	hidden := false // by a loop's variable of the same name
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			loop := e.AsComprehension()
			hidden = hidden || loop.IterVar() == clusterVariable || loop.IterVar2() == clusterVariable
		}
		switch fields := fieldsFrom(e); {
		case len(fields) == 0:
		case isTest(e):
			asked = append(asked, fields)
		default:
			reads.fields = append(reads.fields, fields)
		}
	}))
	if hidden {
		return expressionReads{kind: dynamic}, true
	}
	reads.fields = slices.DeleteFunc(reads.fields, func(fields []string) bool {
		return slices.ContainsFunc(asked, func(a []string) bool {
			return len(fields) >= len(a) && slices.Equal(fields[:len(a)], a)
		})
	})
	if !isTest(parsed.Expr()) {
		reads.value = fieldsFrom(parsed.Expr())
	}
	reads.kind = kindOf(parsed.Expr())
	return reads, true
}

// isTest reports whether an expression is has(…).
func isTest(e ast.Expr) bool { return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() }

// fieldsFrom are the names by which an expression goes from the cluster to a field,
// with points or indices; nil for another expression.
func fieldsFrom(e ast.Expr) []string {
	var names []string
	for {
		switch e.Kind() {
		case ast.IdentKind:
			if e.AsIdent() != clusterVariable {
				return nil
			}
			slices.Reverse(names)
			return names
		case ast.SelectKind:
			names = append(names, e.AsSelect().FieldName())
			e = e.AsSelect().Operand()
		case ast.CallKind:
			call := e.AsCall()
			if call.FunctionName() != operators.Index || call.Args()[1].Kind() != ast.LiteralKind {
				return nil
			}
			name, ok := call.Args()[1].AsLiteral().Value().(string)
			if !ok {
				return nil
			}
			names = append(names, name)
			e = call.Args()[0]
		default:
			return nil
		}
	}
}

// dynamic is the type of what only an evaluation tells.
const dynamic = "dyn"

// kindOf is the type of an expression's value, where its form tells.
func kindOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral().Type().TypeName()
	case ast.ListKind:
		return "list"
	case ast.MapKind:
		return "map"
	case ast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case operators.Add:
			if kind := kindOf(call.Args()[0]); kind != dynamic {
				return kind
			}
			return kindOf(call.Args()[1])
		case operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate:
			return "number"
		case overloads.Size:
			return "int"
		case overloads.TypeConvertString:
			return "string"
		}
	}
	return dynamic
}
