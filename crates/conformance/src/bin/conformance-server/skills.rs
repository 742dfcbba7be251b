//! A skill with a file below it, and one without.

use cardan_server::Skill;
use cardan_server::builder::Builder;

pub(crate) fn add_to(builder: Builder) -> Builder {
    let forms = Skill::new(
        "form-filling",
        "Fills in forms. Use when a person has a form and does not know what to write.",
        "# Form filling\n\nRead references/fields.md first, then ask for what is missing.\n",
    );
    let letters = Skill::new(
        "letter-writing",
        "Writes letters. Use when a person owes one.",
        "# Letters\n\nBe brief.\n",
    );
    builder
        .skill(forms.file("references/fields.md", "text/markdown", "# Fields\n\nEvery field has a name.\n"))
        .skill(letters)
}
