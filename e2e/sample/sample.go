// Package sample has the records that tests of several packages use. Only tests import it.
package sample

import (
	"fmt"
	"time"

	"gchat-hooks/state"
)

// AllowOrDeny is the subquestion of a permission.
func AllowOrDeny() state.SubQuestion {
	return state.SubQuestion{
		Question: "Bash",
		Options:  []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}},
	}
}

// Permission returns a permission that a process of a session asks for.
func Permission(command string, asked time.Time) *state.Question {
	return &state.Question{
		QuestionID: "q-" + command, Kind: state.KindPermission, ToolName: "Bash",
		ShownText: command, CallTexts: []string{command}, Mode: state.ModeNative,
		Status: state.Pending, AskedAt: asked, PostedAt: &asked,
		Approvers: &[]string{"users/1", "users/2"}, ClaudePID: 7, ClaudeStart: "a",
		SubQuestions: []state.SubQuestion{AllowOrDeny()},
	}
}

// FullSubQuestions returns as many subquestions and options as Claude may ask at once.
// Each of their texts is this one.
func FullSubQuestions(text string) []state.SubQuestion {
	var all []state.SubQuestion
	for i := range 4 {
		sub := state.SubQuestion{
			Header: text, Question: fmt.Sprint(i, text), MultiSelect: i > 1,
		}
		for j := range 4 {
			sub.Options = append(sub.Options, state.Option{
				Label: fmt.Sprint(j, text), Description: text, Preview: text,
			})
		}
		all = append(all, sub)
	}
	return all
}
