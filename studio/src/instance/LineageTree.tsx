// Which instance started which, up to the top and down to the last child.
import type { Lineage, LineageNode } from '../api/types';
import { Empty, InstanceLink, Status } from '../ui/parts';
import { Time } from '../ui/time';
import { modelWords } from './journal';

export function LineageTree({ lineage }: { lineage: Lineage }) {
  const { ancestors, instance } = lineage;
  if (ancestors.length === 0 && (instance.children ?? []).length === 0) return <Empty title="It stands alone">No other instance started it, and it has started none.</Empty>;
  const tree = ancestors.reduceRight<LineageNode>((below, above) => ({ ...above, children: [below] }), instance);
  return (
    <ul className="tree">
      <Branch node={tree} here={instance.id} />
    </ul>
  );
}

function Branch({ node, here }: { node: LineageNode; here: string }) {
  const children = node.children ?? [];
  const agent = node.startedByAgent;
  return (
    <li>
      <div className={`tree-node${node.id === here ? ' here' : ''}`} aria-current={node.id === here ? 'true' : undefined}>
        <InstanceLink id={node.id}>{node.key}</InstanceLink>
        <span>
          {node.process} <span className="muted">v{node.version}</span>
        </span>
        <Status status={node.status} />
        <span className="muted small">
          {agent ? `asked for by ${modelWords(agent.model, agent.usedModel, 'an agent')} at ${agent.nodeId}, step ${agent.attempt}.${agent.sequence}` : node.parentNodeId ? `called by ${node.parentNodeId}` : ''} <Time at={node.startedAt} />
        </span>
      </div>
      {children.length > 0 && (
        <ul>
          {children.map((child) => (
            <Branch key={child.id} node={child} here={here} />
          ))}
        </ul>
      )}
    </li>
  );
}
