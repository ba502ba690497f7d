package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
)

// bareVerbosity is how much -v logs without a number.
const bareVerbosity = "2"

// AddVerbosity adds the flag -v, with or without a number. Arguments have to go through
// JoinVerbosity before they are parsed.
func AddVerbosity(f *pflag.FlagSet) {
	f.IntP("v", "v", 0, "how much to log: 0 what matters, 2 what is done (-v alone), 4 why, 6 requests, without their bodies")
	f.Lookup("v").NoOptDefVal = bareVerbosity
}

// JoinVerbosity makes "-v 4", "--v 4" and "-v4" one argument, "-v=4". A flag that does
// without a value takes none from the next argument, so a number that follows would
// count as an argument of the command.
func JoinVerbosity(args []string) []string {
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if number, short := strings.CutPrefix(arg, "-v"); short && isNumber(number) {
			arg = "-v=" + number
		}
		if (arg == "-v" || arg == "--v") && i+1 < len(args) && isNumber(args[i+1]) {
			i++
			arg += "=" + args[i]
		}
		out = append(out, arg)
	}
	return out
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// explainFlag says of a flag that can't be read what is wrong with it, and what to
// write in its place.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	help := fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		if near := suggest.Name(name, flagNames(cmd)); near != "" {
			return fmt.Errorf("%q has no flag --%s: did you mean --%s? Or %s", cmd.CommandPath(), name, near, help)
		}
		return fmt.Errorf("%q has no flag --%s: %s", cmd.CommandPath(), name, help)
	case errors.As(err, &bare) && bare.GetFlag() != nil:
		return fmt.Errorf("--%s needs a value, %s: %s", bare.GetFlag().Name, meaning(bare.GetFlag()), help)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if wanted := meaning(f); wanted != anyValue {
			return fmt.Errorf("--%s %q is not %s: %s", f.Name, invalid.GetValue(), wanted, help)
		}
		return fmt.Errorf("--%s %q: %w: %s", f.Name, invalid.GetValue(), errors.Unwrap(err), help)
	}
	return fmt.Errorf("%w: %s", err, help)
}

// flagNames are the flags that a command takes and shows.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// anyValue stands for values that a flag's type says nothing about.
const anyValue = "which its help describes"

// meaning is what a flag's values are, by its type.
func meaning(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int32", "int64", "uint16":
		return "a whole number such as 3"
	case "float32", "float64":
		return "a number such as 0.5"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 5m"
	case "ip":
		return "an IP address such as 0.0.0.0, without a port"
	case "stringToString":
		return "a list such as key=value,key=value"
	}
	return anyValue
}
