//! The tools whose files we read and write: one row each.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text::Grammar;
use crate::tree::Node;

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// Ours: `cardan.toml`.
    Cardan,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Visual Studio Code, and Copilot's command line.
    VsCode,
    /// Cursor.
    Cursor,
    /// Windsurf.
    Windsurf,
    /// Codex.
    Codex,
    /// Gemini's command line.
    Gemini,
    /// OpenCode.
    OpenCode,
    /// The MCP Inspector.
    Inspector,
    /// mcporter.
    Mcporter,
    /// oh-my-pi.
    OhMyPi,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, comments and trailing commas allowed.
    Json,
    /// TOML.
    Toml,
}

/// What is particular about a tool's files.
struct Row {
    tool: Tool,
    id: &'static str,
    title: &'static str,
    format: Format,
    grammar: Grammar,
    /// Where the servers are, the preferred place first.
    containers: &'static [&'static [&'static str]],
    /// Inside a project, the file to write to first.
    project: &'static [&'static str],
    /// The user's own: `~` is home, `$config` where this system keeps settings, `$xdg` where Linux does.
    user: &'static [&'static str],
}

/// Where Claude Code keeps what is for single projects: a table by their folders, and in each of them the servers.
pub(crate) const OF_PROJECTS: [&str; 2] = ["projects", "mcpServers"];

const MCP_SERVERS: &[&[&str]] = &[&["mcpServers"]];

const ROWS: [Row; 12] = [
    Row {
        tool: Tool::Cardan,
        id: "cardan",
        title: "Cardan",
        format: Format::Toml,
        grammar: Grammar::Cardan,
        containers: &[&["servers"]],
        project: &["cardan.toml"],
        user: &["$xdg/cardan/cardan.toml"],
    },
    Row {
        tool: Tool::ClaudeDesktop,
        id: "claude-desktop",
        title: "Claude Desktop",
        format: Format::Json,
        grammar: Grammar::Dollar,
        containers: MCP_SERVERS,
        project: &[],
        user: &["$config/Claude/claude_desktop_config.json"],
    },
    Row {
        tool: Tool::ClaudeCode,
        id: "claude-code",
        title: "Claude Code",
        format: Format::Json,
        grammar: Grammar::Dollar,
        containers: MCP_SERVERS,
        project: &[".mcp.json"],
        user: &["~/.claude.json"],
    },
    Row {
        tool: Tool::VsCode,
        id: "vscode",
        title: "VS Code",
        format: Format::Json,
        grammar: Grammar::Env,
        containers: &[&["servers"], &["mcpServers"], &["mcp", "servers"]],
        project: &[".vscode/mcp.json"],
        user: &["$config/Code/User/mcp.json", "~/.copilot/mcp-config.json"],
    },
    Row {
        tool: Tool::Cursor,
        id: "cursor",
        title: "Cursor",
        format: Format::Json,
        grammar: Grammar::Env,
        containers: MCP_SERVERS,
        project: &[".cursor/mcp.json"],
        user: &["~/.cursor/mcp.json"],
    },
    Row {
        tool: Tool::Windsurf,
        id: "windsurf",
        title: "Windsurf",
        format: Format::Json,
        grammar: Grammar::Env,
        containers: MCP_SERVERS,
        project: &[".windsurf/mcp_config.json"],
        user: &["~/.codeium/windsurf/mcp_config.json"],
    },
    Row {
        tool: Tool::Codex,
        id: "codex",
        title: "Codex",
        format: Format::Toml,
        grammar: Grammar::Plain,
        containers: &[&["mcp_servers"]],
        project: &[".codex/config.toml"],
        user: &["~/.codex/config.toml"],
    },
    Row {
        tool: Tool::Gemini,
        id: "gemini",
        title: "Gemini CLI",
        format: Format::Json,
        grammar: Grammar::BareDollar,
        containers: MCP_SERVERS,
        project: &[".gemini/settings.json"],
        user: &["~/.gemini/settings.json"],
    },
    Row {
        tool: Tool::OpenCode,
        id: "opencode",
        title: "OpenCode",
        format: Format::Json,
        grammar: Grammar::Brace,
        containers: &[&["mcp", "servers"], &["mcp"]],
        project: &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"],
        user: &["$xdg/opencode/opencode.json", "$xdg/opencode/opencode.jsonc"],
    },
    Row {
        tool: Tool::Inspector,
        id: "inspector",
        title: "MCP Inspector",
        format: Format::Json,
        grammar: Grammar::Dollar,
        containers: MCP_SERVERS,
        project: &[],
        user: &["~/.mcp-inspector/mcp.json"],
    },
    Row {
        tool: Tool::Mcporter,
        id: "mcporter",
        title: "mcporter",
        format: Format::Json,
        grammar: Grammar::DollarEnv,
        containers: MCP_SERVERS,
        project: &["config/mcporter.json", "config/mcporter.jsonc"],
        user: &["~/.mcporter/mcporter.json", "~/.mcporter/mcporter.jsonc"],
    },
    Row {
        tool: Tool::OhMyPi,
        id: "oh-my-pi",
        title: "oh-my-pi",
        format: Format::Json,
        grammar: Grammar::Bang,
        containers: MCP_SERVERS,
        project: &[".omp/mcp.json", ".omp/.mcp.json"],
        user: &["~/.omp/agent/mcp.json", "~/.omp/agent/.mcp.json"],
    },
];

/// Where this machine keeps things.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Where this system keeps settings: `%APPDATA%`, `~/Library/Application Support`, `~/.config`.
    pub config: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub xdg: Option<PathBuf>,
}

impl Folders {
    /// As the environment says.
    pub fn of(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME").or_else(|| set("USERPROFILE"));
        let under = |path: &str| home.as_ref().map(|home| home.join(path));
        let xdg = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(|| under(".config"));
        let config = if cfg!(target_os = "macos") {
            under("Library/Application Support")
        } else if cfg!(windows) {
            set("APPDATA")
        } else {
            xdg.clone()
        };
        Self { home, config, xdg }
    }
}

impl Tool {
    /// All of them, ours first.
    pub const ALL: [Self; 12] = {
        let mut all = [Self::Cardan; 12];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].tool;
            at += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.tool == self).unwrap_or(&ROWS[0])
    }

    /// The tool of this id.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let id = id.to_ascii_lowercase();
        let id = match id.as_str() {
            "claude" => "claude-code",
            "vs-code" | "code" | "copilot" => "vscode",
            "gemini-cli" => "gemini",
            "omp" => "oh-my-pi",
            other => other,
        };
        ROWS.iter().find(|row| row.id == id).map(|row| row.tool)
    }

    /// How it is called on the command line and in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// How its makers call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// How its files are written.
    #[must_use]
    pub fn format(self) -> Format {
        self.row().format
    }

    /// How it spells placeholders.
    #[must_use]
    pub fn grammar(self) -> Grammar {
        self.row().grammar
    }

    /// Its files in a project, the one to write to first.
    #[must_use]
    pub fn project_files(self, project: &Path) -> Vec<PathBuf> {
        self.row().project.iter().map(|file| project.join(file)).collect()
    }

    /// Its files for the user, the one to write to first.
    #[must_use]
    pub fn user_files(self, folders: &Folders) -> Vec<PathBuf> {
        let place = |file: &&str| {
            let (folder, rest) = file.split_once('/')?;
            let folder = match folder {
                "~" => &folders.home,
                "$config" => &folders.config,
                _ => &folders.xdg,
            };
            Some(folder.as_ref()?.join(rest))
        };
        self.row().user.iter().filter_map(place).collect()
    }

    /// Where the servers are in a file, as a path of names.
    #[must_use]
    pub fn container(self, root: &Node) -> &'static [&'static str] {
        let row = self.row();
        if self == Self::OpenCode {
            return opencode_container(root);
        }
        let own = row.containers.iter().find(|path| root.at(path).is_some());
        let foreign = || ANY_JSON.iter().find(|path| row.format == Format::Json && root.at(path).is_some());
        match own.or_else(foreign) {
            Some(path) => path,
            None if row.format == Format::Json && is_flat(root) => &[],
            None => row.containers[0],
        }
    }

    /// Whose file it is: by its name, else by what is in it.
    #[must_use]
    pub fn detect(path: &Path, root: &Node) -> Self {
        by_name(path).unwrap_or_else(|| by_shape(path, root))
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Snippets are pasted into the wrong file; we read them all the same.
const ANY_JSON: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];

/// The second version of OpenCode put the servers one level deeper.
fn opencode_container(root: &Node) -> &'static [&'static str] {
    let is_server = |node: &Node| ["type", "command", "url"].iter().any(|key| node.member(key).is_some());
    match (root.member("mcp"), root.at(&["mcp", "servers"])) {
        (_, Some(servers)) if !is_server(servers) => &["mcp", "servers"],
        (Some(mcp), _) if !mcp.entries().is_empty() => &["mcp"],
        (None, _) if root.member("mcpServers").is_some() => &["mcpServers"],
        _ => &["mcp", "servers"],
    }
}

/// Plugins have the servers at the top.
fn is_flat(root: &Node) -> bool {
    let entries = root.entries();
    !entries.is_empty()
        && entries.iter().all(|entry| {
            ["command", "url", "serverUrl", "httpUrl"].iter().any(|key| entry.node.member(key).is_some())
        })
}

fn by_name(path: &Path) -> Option<Tool> {
    let unix = path.to_string_lossy().replace('\\', "/");
    let ends = |file: &str| unix == file || unix.ends_with(&format!("/{file}"));
    for row in &ROWS {
        let user = row.user.iter().filter_map(|file| file.split_once('/')).map(|(_, rest)| rest);
        if row.project.iter().copied().chain(user).any(ends) {
            return Some(row.tool);
        }
    }
    [("claude_desktop_config.json", Tool::ClaudeDesktop), ("mcp_config.json", Tool::Windsurf)]
        .into_iter()
        .chain([("opencode.json", Tool::OpenCode), ("opencode.jsonc", Tool::OpenCode)])
        .chain([("mcporter.json", Tool::Mcporter), ("mcporter.jsonc", Tool::Mcporter)])
        .find_map(|(file, tool)| ends(file).then_some(tool))
}

fn by_shape(path: &Path, root: &Node) -> Tool {
    if path.extension().is_some_and(|ending| ending == "toml") {
        return if root.member("mcp_servers").is_some() { Tool::Codex } else { Tool::Cardan };
    }
    let any = |path: &[&str], keys: &[&str]| {
        let servers = root.at(path).map(Node::entries).unwrap_or_default();
        servers.iter().any(|entry| keys.iter().any(|key| entry.node.member(key).is_some()))
    };
    if root.member("mcpServers").is_none() {
        let servers = root.at(&["mcp", "servers"]).is_some();
        let local = any(&["mcp"], &["type"]) || any(&["mcp", "servers"], &["environment"]);
        return match root.member("mcp") {
            Some(_) if local || !servers || root.member("$schema").is_some() => Tool::OpenCode,
            Some(_) => Tool::VsCode,
            None if root.member("servers").is_some() => Tool::VsCode,
            None => Tool::ClaudeCode,
        };
    }
    let has = |keys: &[&str]| any(&["mcpServers"], keys);
    if has(&["httpUrl", "includeTools", "excludeTools"]) {
        Tool::Gemini
    } else if has(&["serverUrl"]) {
        Tool::Windsurf
    } else if has(&["baseUrl", "lifecycle", "bearerTokenEnv"]) || root.member("imports").is_some() {
        Tool::Mcporter
    } else if has(&["protocolEra", "modernLogLevel"]) {
        Tool::Inspector
    } else if has(&["requestIdFormat"]) || root.member("disabledServers").is_some() {
        Tool::OhMyPi
    } else {
        Tool::ClaudeCode
    }
}
